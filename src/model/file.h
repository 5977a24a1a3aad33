// SPDX-License-Identifier: Apache-2.0
// What file operations of init (init/files.h) say about files, as wire records.
#pragma once
#include "base/buf.h"

struct file_record {
	char *name; // NULL: no file, but the sign that there are more
	uint32_t mode;
	uint64_t size, mtime_ns;
	uint32_t uid, gid;
	char *link; // where it points to, or NULL
	uint64_t inode, ctime_ns;
	char *user, *group; // names, or the numbers
	uint32_t links;
};
void file_record_done(struct file_record *r);
void file_record_write(struct buf *b, const struct file_record *r);
int file_record_read(struct wire *w, struct file_record *out) MUST_USE;
// Strong: another content has another one, as far as the file system's clock tells moments apart.
#define FILE_ETAG 64
void file_etag(const struct file_record *r, char out[FILE_ETAG]); // without quotes
const char *file_kind(uint32_t mode);				  // "dir", "file", "link", "other"

enum file_event {
	FILE_READY, // the watch has begun
	FILE_CREATE,
	FILE_WRITE,
	FILE_REMOVE,
	FILE_RENAME, // away from this name; its new one, if it is below, is a FILE_CREATE
	FILE_CHMOD,
	FILE_OVERFLOW, // events were lost
	FILE_EVENTS,
};
const char *file_event_name(enum file_event e);
