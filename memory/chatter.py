"""Words of everyday talk, which say nothing of what a turn is about."""

from .terms import asked, content, is_pair

_ENGLISH = """
able absolutely add amazing answer appreciate awesome bad beautiful best better big bring busy buy
call care chance change chat check choose cool could course day deal definitely difference different
difficult easy end enjoy enough evening example excited experience explain fact family fantastic
favorite favourite feel feeling felt find fine first found free friend fun future give glad good
grateful great guess guy hand happen happy hard hear heard help hope hour idea important information
inspire inspiring interesting job join journey keep keeping last late learn leave left let life list
little live long look love lovely luck making man matter message mind minute moment month morning
move name need new news nice night note old open part passion passionate people perfect person place
plan play point possible problem proud put question ready real reason recommend relax remember rest
right run safe saturday sense share short show side simple situation small soon sound special spend
start stay step stop story style suggest sunday super support talk team thing think three time tip
tomorrow tonight totally try turn two type understand use useful wait watch way week weekend welcome
whole wish wonder wonderful word work world worry worth write wrong year yesterday
"""
_CHINESE = """
可以 什么 怎么 为什 么样 么时 时候 这个 那个 这些 那些 这是 我们 你们 他们 没有
不是 就是 还有 一个 一下 一些 一句 一条 帮我 请帮 请问 好的 问题 需要 应该 如果
那么 可能 现在 今天 明天 知道 觉得 有什 么可 以帮 帮你 你的 我的 的吗 还是 或者
因为 所以 但是 然后 已经 谢谢 告诉 给我 想要 我想 的话 是否 以后 之后 哪些 哪个
继续
"""

_CHATTER = frozenset([*content(_ENGLISH), *_CHINESE.split()])
_SHORTEST = 3


def telling(text: str) -> frozenset[str]:
    """Return the terms of a text that can tell its topic: those that not every talk has.

    >>> sorted(telling("Good idea, thanks! What about the login tokens?"))
    ['login', 'token']
    """
    long = (term for term in asked(text) if len(term) >= _SHORTEST or is_pair(term))
    return frozenset(long) - _CHATTER
