"""Archives whose disk fails, for tests."""

from ebbtide import DiskArchive
from ebbtide.memory.record import Group, Owner, Record, Tip


class FullDisk(DiskArchive):
    """An archive whose disk is full for the next `failures` commits."""

    failures = 0

    def commit(self, owner: Owner, tip: Tip, group: Group) -> Record:
        """Fail as a full disk does, or commit."""
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        return super().commit(owner, tip, group)
