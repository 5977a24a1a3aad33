// SPDX-License-Identifier: Apache-2.0
#include "model/file.h"

#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void file_record_done(struct file_record *r)
{
	free(r->name);
	free(r->link);
	free(r->user);
	free(r->group);
	*r = (struct file_record){0};
}

void file_record_write(struct buf *b, const struct file_record *r)
{
	wire_str(b, r->name);
	wire_u32(b, r->mode);
	wire_u64(b, r->size);
	wire_u64(b, r->mtime_ns);
	wire_u32(b, r->uid);
	wire_u32(b, r->gid);
	wire_str(b, r->link);
	wire_u64(b, r->inode);
	wire_u64(b, r->ctime_ns);
	wire_str(b, r->user);
	wire_str(b, r->group);
	wire_u32(b, r->links);
}

int file_record_read(struct wire *w, struct file_record *out)
{
	struct file_record r = {.name = wire_get_str(w)};
	r.mode = wire_get_u32(w);
	r.size = wire_get_u64(w);
	r.mtime_ns = wire_get_u64(w);
	r.uid = wire_get_u32(w);
	r.gid = wire_get_u32(w);
	r.link = wire_get_str(w);
	r.inode = wire_get_u64(w);
	r.ctime_ns = wire_get_u64(w);
	r.user = wire_get_str(w);
	r.group = wire_get_str(w);
	r.links = wire_get_u32(w);
	if (w->bad) {
		file_record_done(&r);
		return -1;
	}
	*out = r;
	return 0;
}

void file_etag(const struct file_record *r, char out[FILE_ETAG])
{
	if (fmt_to(out, FILE_ETAG, "%llx-%llx-%llx", (unsigned long long)r->inode, (unsigned long long)r->size,
		   (unsigned long long)r->mtime_ns))
		out[0] = 0;
}

const char *file_kind(uint32_t mode)
{
	return S_ISDIR(mode) ? "dir" : S_ISREG(mode) ? "file" : S_ISLNK(mode) ? "link" : "other";
}

const char *file_event_name(enum file_event e)
{
	static const char *const names[] = {"ready", "create", "write", "remove", "rename", "chmod", "overflow"};
	static_assert(countof(names) == FILE_EVENTS, "one name each");
	return e < FILE_EVENTS ? names[e] : "unknown";
}
