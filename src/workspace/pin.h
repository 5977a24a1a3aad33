// SPDX-License-Identifier: Apache-2.0
// What skep-repo pin leaves behind, for review later: what the base of a sandbox was when it was made.
//
// SHADOW.git is a bare repository of our own that borrows the host's objects (objects/info/alternates, absolute paths
// on the host; it is never seen inside a cell). Nothing is ever removed from it.
//
// A git work tree gives tree P: the index, and over it every tracked file that differs from the index, every
// untracked file that is not ignored, and every file whose bytes differ from its blob (line ends, LFS), each with the
// bytes and the x-bit it had in the work tree. So P[path] is either exactly what the file was, or the file was
// unchanged since the index and needed no conversion, which is the same. Files gone from the work tree are not in P.
// With --t0 a file that changed later (by its ctime) is in P as the index has it, or not at all: it was not so then.
// A conflict in the index is in P as the work tree has it. Submodules that are checked out are in P as files, in the
// same way; others as the commit the index has (mode 160000). refs/skep/pin is a commit of P without parents; older ones stay reachable by id.
//
// A directory without git gives a manifest, one blob, refs/skep/manifest. Records sorted by the bytes of the path:
//	"MODE SIZE MTIME CTIME INO PATH\0"	mode in octal as stat has it, times in nanoseconds, path below the directory
// of every file, link and directory but the top. A path whose stat is still that of its record is unchanged.
#pragma once

#define PIN_REF "refs/skep/pin"
#define PIN_MANIFEST_REF "refs/skep/manifest"
#define PIN_FILE_MAX (512ULL << 20) // a longer file that is not as in the index is left out, and said
#define PIN_MANIFEST_MAX (1024u << 20)
