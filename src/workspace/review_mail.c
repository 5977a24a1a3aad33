// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_mail.h"

#include "base/mem.h"
#include "base/str.h"
#include "workspace/review_patch.h"
#include <string.h>
#include <time.h>

// One line, nothing that could end a header or begin another.
static bool is_header(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static bool is_ascii(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s >= 0x80)
			return false;
	return true;
}

// RFC 2047, one word for each few characters: a word holds at most 75.
static void put_words(struct buf *out, const char *s)
{
	if (is_ascii(s)) {
		buf_str(out, s);
		return;
	}
	for (size_t n = strlen(s); n;) {
		size_t part = str_utf8_whole(s, n < 18 ? n : 18);
		part = part ? part : 1;
		buf_str(out, "=?UTF-8?q?");
		for (size_t i = 0; i < part; i++)
			buf_fmt(out, "=%02X", (unsigned char)s[i]);
		buf_str(out, "?=");
		s += part;
		n -= part;
		if (n)
			buf_str(out, "\n ");
	}
}

// The body ends where a line is "---" or looks like a patch; such lines of a message are moved in.
static void put_message(struct buf *out, const char *message)
{
	for (struct str rest = str_of(message), line; str_next(&rest, '\n', &line);) {
		auto_free char *l = xstrndup(line.p, line.n);
		bool looks = str_has_prefix(l, "---") || str_has_prefix(l, "diff ") || str_has_prefix(l, "Index: ") ||
			     str_has_prefix(l, "From ");
		buf_fmt(out, "%s%s\n", looks ? " " : "", l);
	}
}

int mail_head(const struct review *r, const struct mail *m, struct buf *out, struct err *e)
{
	char date[64];
	struct tm tm;
	time_t at = (time_t)m->date;
	if (!is_header(m->author) || !is_header(m->email) || !is_header(m->subject) || strpbrk(m->email, "<> ") || !*m->subject)
		return err_set(e, ERR_INVALID, "author, email and subject are one line each, and a subject is needed");
	if (!gmtime_r(&at, &tm) || !strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S +0000", &tm))
		return err_set(e, ERR_INVALID, "no such date");
	buf_str(out, "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: ");
	put_words(out, m->author);
	buf_fmt(out, " <%s>\nDate: %s\nSubject: [PATCH] ", m->email, date);
	put_words(out, m->subject);
	buf_str(out, "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n");
	if (m->message)
		put_message(out, m->message);
	buf_str(out, "---\n");
	patch_stat(r, out);
	buf_byte(out, '\n');
	return 0;
}

void mail_end(struct buf *out)
{
	buf_str(out, "-- \nskep\n\n");
}
