// SPDX-License-Identifier: Apache-2.0
// File operations on sandbox data, run as a child of init with the streams of an exec and the rights of a user
// of the cell. argv[0] is the operation; [words] may stand in any order behind the paths:
//
//   kind PATH             dir | file | link | other | none
//   stat PATH [follow]    one record; follow: of what a link points to
//   list DIR [depth=N] [max=N]   one record per entry, its name relative to DIR; links are not entered. A last record
//                         without a name: there are more than max
//   read PATH [from=N|from=-N] [len=N]   the bytes; from=-N: the last N
//   get PATH [from=…] [len=N]    one record of the file itself (links are followed), then the bytes
//   write PATH [mode=OCTAL] [parents] [new] [etag=E]   stdin, by rename; then one record. new: EEXIST where something is;
//                         etag: ESTALE where it is not as it was. Links are followed, a file's mode and owner are kept
//   append PATH [mode=OCTAL] [parents]   stdin, behind what is there; then one record
//   edit PATH [etag=E]    stdin: u32 n, n x (bytes old, bytes new, u8 every one); all of them or none, by rename; then u64
//                         replaced, u64 line of the first, one record
//   mkdir PATH [mode=OCTAL] [new]   with its parents; then one record. new: EEXIST where it is
//   move FROM TO [parents] [new]    also from one file system to another; then one record
//   copy FROM TO [parents] [new]    a tree, links as links; then one record
//   rename FROM TO
//   remove PATH [plain] [must]      plain: ENOTEMPTY rather than a tree; must: ENOENT where nothing is
//   search DIR [regex=R] [literal] [nocase] [glob=G]… [not=G]… [hidden] [files] [limit=N] [ms=N]   init/files_search.c
//   inotify DIR [recursive]         u8 file_event, u8 directory, str name relative to DIR; first a FILE_READY, and one for each byte
//                         of stdin, behind all that had happened before
//   pack PATH             a pack stream       unpack DIR | unpack-as DIR NAME   reads one
//   tar PATH              one record, then a tar archive (base/tar.h) of the file or of what is in the directory
//   untar DIR [parents]   stdin: such an archive, also in gzip; then one record. parents: makes DIR
//   collect               what the layers change, as a stream of changes (base/delta.h)
//   restore DIR           reads such a stream and puts back what is still as expected
//   watch                 init/watch.h
//   sftp [DIR]            init/sftp.h
//
// A record is the wire form of struct file_record (model/file.h).
#pragma once

// The exit status: 0, or the errno of what failed, where there is none EINVAL, or EFBIG for a limit of ours; the message is one line on stderr.
int files_job(char *const *argv);
