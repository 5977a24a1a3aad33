// SPDX-License-Identifier: Apache-2.0
#include "journal/archive.h"

#include "base/str.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

void archive_line_write(struct buf *b, const struct archive_entry *en)
{
	buf_fmt(b, "%s %llu %llu %llu %s\n", en->id, (unsigned long long)en->offset, (unsigned long long)en->length,
		(unsigned long long)en->raw, en->sha256);
}

static bool archive_number(struct str *rest, uint64_t most, uint64_t *out)
{
	struct str part;
	return str_next(rest, ' ', &part) && part.n && !str_to_u64(part, 0, most, out);
}

bool archive_line_parse(const char *line, size_t n, struct archive_entry *out)
{
	struct str rest = {line, n}, id, sha;
	*out = (struct archive_entry){0};
	if (n >= ARCHIVE_LINE_MAX || memchr(line, 0, n) || !str_next(&rest, ' ', &id) || id.n >= sizeof out->id)
		return false;
	memcpy(out->id, id.p, id.n);
	if (!id_is(out->id) || !archive_number(&rest, INT64_MAX / 2, &out->offset) || !archive_number(&rest, INT64_MAX / 2, &out->length) ||
	    !archive_number(&rest, ARCHIVE_RAW_MAX, &out->raw) || !str_next(&rest, ' ', &sha) || sha.n != SHA256_HEX - 1 || rest.n)
		return false;
	memcpy(out->sha256, sha.p, sha.n);
	return strspn(out->sha256, "0123456789abcdef") == SHA256_HEX - 1;
}

int archive_each(int fd, void (*fn)(void *ctx, const struct archive_entry *en), void *ctx, struct err *e)
{
	char block[16384], line[ARCHIVE_LINE_MAX];
	struct archive_entry en;
	size_t len = 0; // of the line so far; past its end the rest of it is skipped
	uint64_t at = 0;
	for (;;) {
		ssize_t n = pread(fd, block, sizeof block, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the index of an archive");
		if (!n)
			return 0; // a last line without its end was cut off
		at += (uint64_t)n;
		for (ssize_t i = 0; i < n; i++) {
			if (block[i] != '\n') {
				if (len < sizeof line)
					line[len] = block[i];
				len += len < sizeof line;
				continue;
			}
			if (len < sizeof line && archive_line_parse(line, len, &en))
				fn(ctx, &en);
			len = 0;
		}
	}
}

struct search {
	const char *id;
	struct archive_entry *out;
	int found;
};

static void archive_on_entry(void *ctx, const struct archive_entry *en)
{
	struct search *s = ctx;
	if (strcmp(en->id, s->id))
		return;
	*s->out = *en;
	s->found = 1;
}

int archive_find(int fd, const char *id, struct archive_entry *out, struct err *e)
{
	struct search s = {id, out, 0};
	return archive_each(fd, archive_on_entry, &s, e) ? -1 : s.found;
}
