// SPDX-License-Identifier: Apache-2.0
// Lines of a git configuration.
#include "workspace/gitlayer_int.h"

#include "base/mem.h"
#include <string.h>

static void quoted(struct buf *out, const char *s)
{
	buf_byte(out, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_byte(out, '\\');
		if (*s == '\t')
			buf_str(out, "\\t");
		else
			buf_byte(out, *s);
	}
	buf_byte(out, '"');
}

static void section(struct buf *out, const char *key)
{
	const char *dot = strchr(key, '.'), *last = strrchr(key, '.');
	buf_byte(out, '[');
	buf_add(out, key, (size_t)(dot - key));
	if (last != dot) {
		auto_free char *sub = xstrndup(dot + 1, (size_t)(last - dot - 1));
		buf_byte(out, ' ');
		buf_byte(out, '"');
		for (char *c = sub; *c; c++) {
			if (*c == '"' || *c == '\\')
				buf_byte(out, '\\');
			buf_byte(out, *c);
		}
		buf_byte(out, '"');
	}
	buf_str(out, "]\n");
}

void gitconfig_add(struct buf *out, const char *key, const char *value)
{
	section(out, key);
	buf_fmt(out, "\t%s", strrchr(key, '.') + 1);
	if (value) {
		buf_str(out, " = ");
		quoted(out, value);
	}
	buf_byte(out, '\n');
}
