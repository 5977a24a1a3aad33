// SPDX-License-Identifier: Apache-2.0
// File operations on sandbox data, run as a child of init with the streams of an exec and the rights of a user
// of the cell. argv[0] is the operation:
//
//   kind PATH             dir | file | link | other | none
//   stat PATH             one record          list DIR     one record for each entry
//   read PATH             the bytes           write PATH [MODE]   the bytes of stdin, by rename
//   mkdir PATH  remove PATH  rename FROM TO
//   pack PATH             a pack stream       unpack DIR | unpack-as DIR NAME   reads one
//   collect               what the layers change, as a stream of changes (base/delta.h)
//   restore DIR           reads such a stream and puts back what is still as expected
//
// A record is the wire form of: str name, u32 mode, u64 size, u64 mtime_ns, u32 uid, u32 gid, str link target or NULL.
#pragma once

// The exit status: 0, or the errno of what failed, 1 where there is none; the message is one line on stderr.
int files_job(char *const *argv);
