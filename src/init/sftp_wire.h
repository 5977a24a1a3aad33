// SPDX-License-Identifier: Apache-2.0
// Packets of SFTP version 3 (draft-ietf-secsh-filexfer-02) as OpenSSH's clients send them: pure, no file is touched here.
#pragma once
#include "base/buf.h"

#define SFTP_PACKET_MAX (256u << 10) // as OpenSSH's
#define SFTP_DATA_MAX (SFTP_PACKET_MAX - 1024)

enum sftp_type {
	SFTP_INIT = 1,
	SFTP_VERSION = 2,
	SFTP_OPEN = 3,
	SFTP_CLOSE = 4,
	SFTP_READ = 5,
	SFTP_WRITE = 6,
	SFTP_LSTAT = 7,
	SFTP_FSTAT = 8,
	SFTP_SETSTAT = 9,
	SFTP_FSETSTAT = 10,
	SFTP_OPENDIR = 11,
	SFTP_READDIR = 12,
	SFTP_REMOVE = 13,
	SFTP_MKDIR = 14,
	SFTP_RMDIR = 15,
	SFTP_REALPATH = 16,
	SFTP_STAT = 17,
	SFTP_RENAME = 18,
	SFTP_READLINK = 19,
	SFTP_SYMLINK = 20,
	SFTP_STATUS = 101,
	SFTP_HANDLE = 102,
	SFTP_DATA = 103,
	SFTP_NAME = 104,
	SFTP_ATTRS = 105,
	SFTP_EXTENDED = 200,
	SFTP_EXTENDED_REPLY = 201,
	// extensions, told by name on the wire
	SFTP_POSIX_RENAME = 256,
	SFTP_HARDLINK,
	SFTP_FSYNC,
	SFTP_LSETSTAT,
	SFTP_STATVFS,
	SFTP_LIMITS,
	SFTP_EXPAND,
	SFTP_UNKNOWN,
};

enum sftp_status { SFTP_OK, SFTP_EOF, SFTP_NO_SUCH_FILE, SFTP_DENIED, SFTP_FAILURE, SFTP_BAD_MESSAGE, SFTP_UNSUPPORTED = 8 };
enum sftp_flags { SFTP_F_READ = 1, SFTP_F_WRITE = 2, SFTP_F_APPEND = 4, SFTP_F_CREATE = 8, SFTP_F_TRUNC = 16, SFTP_F_EXCL = 32 };
enum sftp_has { SFTP_HAS_SIZE = 1, SFTP_HAS_OWNER = 2, SFTP_HAS_MODE = 4, SFTP_HAS_TIMES = 8 };

struct sftp_attrs {
	uint32_t has; // enum sftp_has
	uint64_t size;
	uint32_t uid, gid, mode, atime, mtime;
};

struct sftp_request {
	unsigned type; // enum sftp_type, of an extension its own
	uint32_t id;   // SFTP_INIT: the version
	char *path, *path2;
	uint32_t handle;
	bool bad_handle; // not one that we ever give
	uint64_t offset;
	uint32_t len, flags;
	struct sftp_attrs attrs;
	const uint8_t *data; // len bytes; borrowed from the packet
};
void sftp_request_done(struct sftp_request *r);
// p, n: a packet behind its length. -1: malformed; r->id is what could be read of it.
int sftp_parse(const uint8_t *p, size_t n, struct sftp_request *r) MUST_USE;

// Answers. sftp_begin leaves room for the length, sftp_end fills it in.
size_t sftp_begin(struct buf *b, enum sftp_type type, uint32_t id);
void sftp_end(struct buf *b, size_t at);
void sftp_u32(struct buf *b, uint32_t v);
void sftp_u64(struct buf *b, uint64_t v);
void sftp_str(struct buf *b, const void *p, size_t n);
void sftp_attrs(struct buf *b, const struct sftp_attrs *a);
extern const struct sftp_extension {
	const char *name, *version;
	enum sftp_type type;
} sftp_extensions[]; // ends with a NULL name
