// SPDX-License-Identifier: Apache-2.0
// A file as envd describes it.
#include "api/e2b_entry.h"

#include "base/mem.h"
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void entry_permissions(struct buf *b, uint32_t mode)
{
	static const struct {
		uint32_t mask, is;
		char letter;
	} flags[] = {
		{S_IFMT, S_IFDIR, 'd'}, {S_IFMT, S_IFLNK, 'L'},	  {S_IFMT, S_IFBLK, 'D'},   {S_IFMT, S_IFCHR, 'D'},
		{S_IFMT, S_IFIFO, 'p'}, {S_IFMT, S_IFSOCK, 'S'}, {S_ISUID, S_ISUID, 'u'}, {S_ISGID, S_ISGID, 'g'},
		{S_IFMT, S_IFCHR, 'c'}, {S_ISVTX, S_ISVTX, 't'},
	};
	size_t before = b->n;
	for (size_t i = 0; i < countof(flags); i++)
		if ((mode & flags[i].mask) == flags[i].is)
			buf_byte(b, flags[i].letter);
	if (b->n == before)
		buf_byte(b, '-');
	for (int i = 8; i >= 0; i--)
		buf_byte(b, mode & 1u << i ? "xwr"[i % 3] : '-');
}

static const char *type_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "FILE_TYPE_FILE";
	case S_IFDIR:
		return "FILE_TYPE_DIRECTORY";
	case S_IFLNK:
		return "FILE_TYPE_SYMLINK";
	default:
		return NULL; // unspecified
	}
}

static void put_time(struct jsonw *w, uint64_t ns)
{
	time_t at = (time_t)(ns / 1000000000u);
	struct tm tm;
	auto_buf struct buf b = BUF_INIT(64);
	if (!gmtime_r(&at, &tm) || tm.tm_year > 8099)
		return; // beyond what a Timestamp can say
	buf_fmt(&b, "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		tm.tm_sec, (unsigned)(ns % 1000000000u));
	jw_kstr(w, "modifiedTime", b.p);
}

void entry_notes(struct jsonw *w, char *const *notes)
{
	if (!*notes)
		return;
	jw_key(w, "metadata");
	jw_open(w, '{');
	for (; *notes; notes++) {
		size_t n = strcspn(*notes, "=");
		auto_free char *name = xstrndup(*notes, n);
		jw_kstr(w, name, *notes + n + 1);
	}
	jw_close(w, '}');
}

// A link has its own size and permissions, and the type and mode of what it leads to.
void entry_info(struct jsonw *w, const struct entry *n)
{
	auto_buf struct buf permissions = BUF_INIT(32), size = BUF_INIT(32);
	uint32_t mode = n->target ? n->target_mode : n->file.mode;
	entry_permissions(&permissions, n->file.mode);
	buf_fmt(&size, "%llu", (unsigned long long)n->file.size);
	jw_open(w, '{');
	jw_kstr(w, "name", n->file.name);
	jw_kstr(w, "type", type_of(mode));
	jw_kstr(w, "path", n->path);
	if (n->file.size)
		jw_kstr(w, "size", size.p);
	if (mode & 0777)
		jw_ku64(w, "mode", mode & 0777);
	jw_kstr(w, "permissions", permissions.p);
	jw_kstr(w, "owner", n->file.user);
	jw_kstr(w, "group", n->file.group);
	put_time(w, n->file.mtime_ns);
	jw_kstr(w, "symlinkTarget", n->target);
	entry_notes(w, n->notes);
	jw_close(w, '}');
}
