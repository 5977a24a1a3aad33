// SPDX-License-Identifier: Apache-2.0
#include "model/volume.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define PATH_LONGEST 4000

bool volume_name_is(const char *s)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t n = strlen(s);
	return n && n <= VOLUME_NAME_MAX && strspn(s, letters) == n && s[0] != '-' && !(id_is(s) && s[0] == 'v');
}

char *volume_path_clean(const char *path)
{
	struct str rest = str_of(path), part;
	auto_buf struct buf out = BUF_INIT(PATH_LONGEST + 1);
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (str_is(part, "..") || part.n > 255)
			return NULL;
		buf_fmt(&out, "%s%.*s", out.n ? "/" : "", (int)part.n, part.p);
	}
	return out.overflow ? NULL : xstrdup(buf_cstr(&out));
}

int volume_wish_parse(const char *text, struct volume_wish *out, struct err *e)
{
	struct str rest = str_of(text), name, dst, how = {0};
	bool whole = str_next(&rest, ':', &name) && str_next(&rest, ':', &dst);
	bool has_how = whole && str_next(&rest, ':', &how);
	bool fits = whole && dst.n && dst.p[0] == '/' && !rest.p && (!has_how || str_is(how, "ro") || str_is(how, "rw"));
	if (!fits || text[0] == '/' || text[0] == '.')
		return err_set(e, ERR_INVALID, "volume %.200s is not NAME:/path/inside, with :ro or :rw behind it or nothing%s", text,
			       text[0] == '/' || text[0] == '.' ? "; a directory of this machine is shown with --mount" : "");
	*out = (struct volume_wish){xstrndup(name.p, name.n), xstrndup(dst.p, dst.n), !has_how || str_is(how, "rw")};
	if (volume_name_is(out->name) || (id_is(out->name) && out->name[0] == 'v'))
		return 0;
	err_set(e, ERR_INVALID, "\"%.80s\" can not name a volume: 1 to %d of A-Z a-z 0-9 - _, not starting with -", out->name, VOLUME_NAME_MAX);
	volume_wish_done(out);
	return -1;
}

void volume_wish_done(struct volume_wish *w)
{
	free(w->name);
	free(w->dst);
	*w = (struct volume_wish){0};
}

void volume_op_write(struct buf *b, const struct volume_op *op)
{
	wire_u8(b, op->verb);
	wire_str(b, op->volume);
	wire_str(b, op->path);
	wire_u32(b, op->depth);
	wire_u32(b, op->uid);
	wire_u32(b, op->gid);
	wire_u32(b, op->mode);
	wire_u8(b, op->force);
}

int volume_op_read(struct wire *w, struct volume_op *out, struct err *e)
{
	struct volume_op op = {.verb = wire_get_u8(w)};
	auto_free char *volume = wire_get_str(w), *path = wire_get_str(w);
	op.depth = wire_get_u32(w);
	op.uid = wire_get_u32(w);
	op.gid = wire_get_u32(w);
	op.mode = wire_get_u32(w);
	op.force = wire_get_u8(w);
	op.path = path ? volume_path_clean(path) : NULL;
	bool named = volume && id_is(volume) && volume[0] == 'v' && !fmt_to(op.volume, sizeof op.volume, "%s", volume);
	if (!w->bad && named && op.path && op.verb < VOLUME_VERBS && op.depth <= VOLUME_DEPTH_MAX) {
		*out = op;
		return 0;
	}
	volume_op_done(&op);
	return err_set(e, ERR_INVALID, "malformed request for work in a volume");
}

void volume_op_done(struct volume_op *op)
{
	free(op->path);
	*op = (struct volume_op){0};
}
