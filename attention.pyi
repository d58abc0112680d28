from .memory.attention.law import Attention as Attention
from .memory.attention.law import Explanation as Explanation
from .memory.attention.law import Memory as Memory
from .memory.attention.manager import AttentionManager as AttentionManager
from .memory.attention.manager import compute_effective_salience as compute_effective_salience
from .memory.attention.redis import RedisAttention as RedisAttention
