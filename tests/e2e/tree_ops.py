# SPDX-License-Identifier: Apache-2.0
"""Random changes of a tree, and a description of it. Run with the same seed on equal trees it leaves equal trees, so it is
run once inside a sandbox and once on a plain directory, which is the model.

    tree_ops.py apply SEED COUNT [DIR]      tree_ops.py dump [DIR]

Hard links have names that begin with "hl", and in-place writes leave those alone: overlayfs gives such a file a life of
its own when it is first written to in a new layer (docs/workspaces.md). How many names a file has is not looked at either:
sealed layers share files that way."""
import errno
import hashlib
import os
import random
import stat
import sys

NAMES = [b"a", b"b", b"c d", b"-x", b"n\nl", b"q'\"", "\u00e4\u4e16".encode(), b"\xff\xfe", b".hidden", b"L" * 200, b"t\tt", b"$(x)", b"wh", b".wh.a"]


def tree(top):
    """(directories, files, links): paths below top, in an order that does not depend on the file system"""
    dirs, files, links = [b"."], [], []
    for d, ds, fs in os.walk(top):
        ds.sort()
        rel = os.path.relpath(d, top)
        for n in sorted(ds) + sorted(fs):
            p = os.path.normpath(os.path.join(rel, n))
            mode = os.lstat(os.path.join(top, p)).st_mode
            (links if stat.S_ISLNK(mode) else dirs if stat.S_ISDIR(mode) else files).append(p)
    return sorted(dirs), sorted(files), sorted(links)


def below(dirs):
    return [d for d in dirs if d != b"."]


class Ops:
    def __init__(self, top, seed):
        self.top = os.fsencode(top)
        self.r = random.Random(seed)

    def at(self, p):
        return os.path.join(self.top, p)

    def fresh(self, dirs):
        return os.path.normpath(os.path.join(self.r.choice(dirs), self.r.choice(NAMES) + str(self.r.randrange(30)).encode()))

    def write(self, dirs, files, links):
        p, data = self.fresh(dirs), self.r.randbytes(self.r.randrange(0, 5000))
        if not os.path.lexists(self.at(p)):
            with open(self.at(p), "wb") as f:
                f.write(data)

    def writable(self, paths):
        """root may write to what an ordinary user may not: the mode decides for both"""
        return [p for p in paths if not os.path.basename(p).startswith(b"hl") and os.lstat(self.at(p)).st_mode & 0o200]

    def append(self, dirs, files, links):
        p = self.r.choice(self.writable(files))
        data = self.r.randbytes(50)
        with open(self.at(p), "ab") as f:
            f.write(data)

    def replace(self, dirs, files, links):
        p, data = self.r.choice(files), self.r.randbytes(100)
        temporary = os.path.join(os.path.dirname(self.at(p)), b"new")
        with open(temporary, "wb") as f:
            f.write(data)
        os.rename(temporary, self.at(p))

    def sparse(self, dirs, files, links):
        p, size = self.fresh(dirs), self.r.randrange(1, 4) << 20
        if os.path.lexists(self.at(p)):
            return
        with open(self.at(p), "wb") as f:
            f.truncate(size)
            f.seek(size // 2)
            f.write(b"middle")

    def truncate(self, dirs, files, links):
        p = self.r.choice(self.writable(files))
        os.truncate(self.at(p), self.r.randrange(0, 200))

    def mkdir(self, dirs, files, links):
        os.mkdir(self.at(self.fresh(dirs)))

    def symlink(self, dirs, files, links):
        os.symlink(self.r.choice([b"../x", b"a0", b"/nowhere", b"."]), self.at(self.fresh(dirs)))

    def link(self, dirs, files, links):
        p = os.path.normpath(os.path.join(self.r.choice(dirs), b"hl%d" % self.r.randrange(30)))
        with open(self.at(p), "xb") as f:
            f.write(self.r.randbytes(300))
        os.link(self.at(p), self.at(p + b"-too"))

    def unlink(self, dirs, files, links):
        os.unlink(self.at(self.r.choice(files + links)))

    def rmdir(self, dirs, files, links):
        top = self.at(self.r.choice(below(dirs)))
        for d, ds, fs in os.walk(top, topdown=False):
            for n in fs:
                os.unlink(os.path.join(d, n))
            for n in ds:
                p = os.path.join(d, n)
                os.unlink(p) if os.path.islink(p) else os.rmdir(p)
        os.rmdir(top)

    def rename_file(self, dirs, files, links):
        p, to = self.r.choice(files + links), self.fresh(dirs)
        if os.path.basename(p).startswith(b"hl"):
            to = os.path.join(os.path.dirname(to), b"hl" + os.path.basename(to)[:200])
        os.rename(self.at(p), self.at(to))

    def rename_dir(self, dirs, files, links):
        os.rename(self.at(self.r.choice(below(dirs))), self.at(self.fresh(dirs)))

    def chmod(self, dirs, files, links):
        p = self.r.choice(files + below(dirs))
        mode = self.r.choice([0o644, 0o755, 0o600, 0o444]) if p in files else self.r.choice([0o755, 0o700])
        if not os.path.basename(p).startswith(b"hl"):
            os.chmod(self.at(p), mode)

    def xattr(self, dirs, files, links):
        p, v = self.r.choice(self.writable(files + below(dirs))), self.r.randbytes(8)
        os.setxattr(self.at(p), b"user.test", v)

    def one(self):
        op = self.r.choice(["write"] * 4 + "append replace sparse truncate mkdir mkdir symlink link unlink rmdir rename_file rename_file rename_dir rename_dir chmod xattr".split())
        try:
            getattr(self, op)(*tree(self.top))
        except IndexError:
            pass  # nothing to choose from
        except OSError as e:
            # what the model refuses too: the place is taken, below itself, not writable
            if e.errno not in (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENAMETOOLONG):
                raise RuntimeError(f"{op}: {e}") from e


def dump(top):
    """One line for each entry; entries that are one file share a number."""
    top = os.fsencode(top)
    seen, out = {}, []
    for kind in tree(top):
        for p in kind:
            st = os.lstat(os.path.join(top, p))
            what = f"{stat.filemode(st.st_mode)}"
            if stat.S_ISLNK(st.st_mode):
                what += f" -> {os.readlink(os.path.join(top, p))!r}"
            elif stat.S_ISREG(st.st_mode):
                with open_any(os.path.join(top, p)) as f:
                    what += f" {st.st_size} {hashlib.sha256(f.read()).hexdigest()[:16]}"
            if not stat.S_ISLNK(st.st_mode) and p != b".":
                attrs = [(n, os.getxattr(os.path.join(top, p), n).hex()) for n in sorted(os.listxattr(os.path.join(top, p))) if n == "user.test"]
                what += f" {attrs}" if attrs else ""
            out.append((p, what))
    return "\n".join(f"{p!r} {w}" for p, w in sorted(out))


def open_any(path):
    return open(path, "rb")


if __name__ == "__main__":
    if sys.argv[1] == "apply":
        ops = Ops(sys.argv[4] if len(sys.argv) > 4 else ".", int(sys.argv[2]))
        for _ in range(int(sys.argv[3])):
            ops.one()
    else:
        print(dump(sys.argv[2] if len(sys.argv) > 2 else "."))
