from .memory.attention.law import Attention as Attention
from .memory.attention.law import Explanation as Explanation
from .memory.attention.law import Memory as Memory
from .memory.attention.redis import RedisAttention as RedisAttention
