// SPDX-License-Identifier: Apache-2.0
// A stream of changes to a directory: what a sandbox's layers made of their base (init writes it, skep-review copies it),
// and what `dismiss` puts back (skep-review writes it, init compares and swaps). Blocking.
//
//   8 bytes of magic, entries, one byte 'e'
//   entry: u8 kind, u8 flags (1 = executable, 2 = a mark follows the path: 5 * u64, see delta_mark), u32 length + path, and then
//     'f' file           u32 length (at most DELTA_CHUNK) + bytes, again and again, u32 0, u8 torn (1: it changed while it was read)
//                        a length of all ones is a hole: u64 number of zero bytes (only where the reader takes holes)
//     '=' another name of a file that this stream sent before: u32 length + that path
//     '~' unchanged since the reader's copy: u64 place of its mark in the list that the reader sent (delta_ask)
//     'n' changed, but not asked for: u64 size
//     'l' symbolic link  u32 length + target
//     'd' directory that the base has not
//     'o' directory that hides the base's one of the same name
//     'x' gone: a file, or a directory with all below it
//     'h' file too long to be sent: u64 size
//     's' socket, FIFO or device: never reaches the host
//     'g' git's own data: never reaches the host
//     'u' what can not be read, or has too long a path (then the path is cut)
//     'r' work that is no file of the workspace: a ref, stash or commit (DELTA_WORK_GIT and its name), a file of the home directory
//         (DELTA_WORK_HOME and its path): named, never reaches the host this way
//     'c' not a change: what must be at the path now for the next entry to be written: u8 kind ('f', 'l', 'x'),
//         32 bytes SHA-256 of the content or target (zero for 'x'); its flag is the file's
//
// The reader trusts nothing: paths are relative and clean, at most DELTA_PATH bytes, in any order.
#pragma once
#include "base/buf.h"

#define DELTA_PATH 4096
#define DELTA_CHUNK (128u << 10)
#define DELTA_WORK_GIT ".git/" // names of an 'r' begin so: no file of a workspace that is told has such a path
#define DELTA_WORK_HOME ".git/~/"

struct delta_out {
	int fd;
	struct buf b; // what is not written yet
};

// The same file with the same mark has the same content. All zero: not known.
struct delta_mark {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

// What the reader of a sandbox's changes wants, sent to the job that writes them: 8 bytes of magic, u64 file_max,
// u64 total_max, u32 number of paths + paths, u32 number of marks + marks.
struct delta_ask {
	uint64_t file_max, total_max; // longer files, and what comes behind so many bytes, are named but not sent
	char **paths;		      // contents wanted: these and all below them; NULL = all. Owned
	struct delta_mark *known;     // what the reader has; owned
	size_t n_known;
};
void delta_ask_print(const struct delta_ask *a, struct buf *out);
int delta_ask_read(const void *p, size_t n, struct delta_ask *out, struct err *e) MUST_USE; // an empty one asks for all
void delta_ask_done(struct delta_ask *a);
// One of them, below one of them, or above one of them; NULL names all.
bool delta_path_meets(char *const *paths, const char *path);

void delta_out_init(struct delta_out *o, int fd); // puts the magic
void delta_out_done(struct delta_out *o);
int delta_put(struct delta_out *o, char kind, bool exec, const char *path, struct err *e) MUST_USE; // d o x s g u r
int delta_put_link(struct delta_out *o, const char *path, const char *target, struct err *e) MUST_USE;
int delta_put_bytes(struct delta_out *o, const char *path, bool exec, const void *p, size_t n, struct err *e) MUST_USE;
// Reads fd to its end. A file that changes meanwhile is sent as torn. The marked one sends holes as such.
int delta_put_fd(struct delta_out *o, const char *path, int fd, struct err *e) MUST_USE;
int delta_put_marked(struct delta_out *o, const char *path, int fd, const struct delta_mark *m, struct err *e) MUST_USE;
int delta_put_same(struct delta_out *o, const char *path, bool exec, const char *as, struct err *e) MUST_USE;
int delta_put_known(struct delta_out *o, const char *path, bool exec, uint64_t place, struct err *e) MUST_USE;
int delta_put_size(struct delta_out *o, char kind, const char *path, bool exec, uint64_t size, struct err *e) MUST_USE; // h n
int delta_put_expect(struct delta_out *o, const char *path, char kind, bool exec, const uint8_t sha[32],
		     struct err *e) MUST_USE;
int delta_end(struct delta_out *o, struct err *e) MUST_USE;

struct delta_in {
	int fd; // -1: only what is in chunk
	const char *chunk;
	char *own;
	size_t at, n;
	bool in_body;
	bool holes; // set by the reader: delta_body may give a hole
};

struct delta_entry {
	char kind, expect; // expect: kind byte of a 'c'
	bool exec;
	uint64_t size; // of an 'h' or 'n'; the place of a '~'
	struct delta_mark mark; // of an 'f'
	uint8_t sha[32];
	char path[DELTA_PATH + 1], link[DELTA_PATH + 1]; // link: also the other name of an '='
};

void delta_in_fd(struct delta_in *d, int fd);
void delta_in_mem(struct delta_in *d, const void *p, size_t n); // p borrowed
void delta_in_done(struct delta_in *d);
int delta_start(struct delta_in *d, struct err *e) MUST_USE;
// 1 and the next entry, 0 at the end. A file's body must have been read to its end before.
int delta_next(struct delta_in *d, struct delta_entry *out, struct err *e) MUST_USE;
// The next bytes of the file just returned (borrowed until the next call); *out_n = 0 at its end, when *out_torn is known.
// *out NULL: a hole of *out_n bytes.
int delta_body(struct delta_in *d, const char **out, size_t *out_n, bool *out_torn, struct err *e) MUST_USE;
bool delta_path_ok(const char *path); // relative, no empty, "." or ".." part, at most DELTA_PATH bytes
