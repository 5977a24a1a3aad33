// SPDX-License-Identifier: Apache-2.0
#include "model/layer.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void layer_op_write(struct buf *b, const struct layer_op *op)
{
	wire_u8(b, op->verb);
	wire_strv(b, op->from);
	wire_str(b, op->to);
	wire_str(b, op->like);
	wire_u8(b, op->sealed);
	wire_strv(b, op->below);
	wire_str(b, op->base);
}

// One name below layers/; those that begin with a dot are the nursery's own.
static bool is_name(const char *s)
{
	return *s && *s != '.' && !strchr(s, '/') && strlen(s) < 128;
}

static bool is_fit(const struct layer_op *op)
{
	bool makes = op->verb == LAYER_COPY || op->verb == LAYER_MERGE;
	size_t n = op->from ? strv_len(op->from) : 0;
	for (size_t i = 0; i < n; i++)
		if (!is_name(op->from[i]))
			return false;
	if (op->verb >= LAYER_VERBS || !n || n > LIMIT_LAYERS || (op->verb != LAYER_MERGE && n != 1))
		return false;
	for (char *const *b = op->below; b && *b; b++)
		if (**b != '/' || op->verb != LAYER_MERGE)
			return false;
	if (op->verb == LAYER_TRIM && (!op->base || *op->base != '/'))
		return false;
	return makes ? op->to && is_name(op->to) && (!op->like || is_name(op->like)) : !op->to && !op->like;
}

int layer_op_read(struct wire *w, struct layer_op *out, struct err *e)
{
	struct layer_op op = {.verb = wire_get_u8(w)};
	op.from = wire_get_strv(w);
	op.to = wire_get_str(w);
	op.like = wire_get_str(w);
	op.sealed = wire_get_u8(w);
	op.below = wire_get_strv(w);
	op.base = wire_get_str(w);
	if (w->bad || !is_fit(&op)) {
		layer_op_done(&op);
		return err_set(e, ERR_INVALID, "malformed request for work on a layer");
	}
	*out = op;
	return 0;
}

void layer_op_done(struct layer_op *op)
{
	strv_free((char **)op->from);
	free((char *)op->to);
	free((char *)op->like);
	strv_free((char **)op->below);
	free((char *)op->base);
	*op = (struct layer_op){0};
}

void layer_result_write(struct buf *b, const struct layer_result *r)
{
	wire_u64(b, r->bytes);
	wire_u64(b, r->files);
	wire_u64(b, r->shared);
}

int layer_result_read(struct wire *w, struct layer_result *out)
{
	struct layer_result r = {.bytes = wire_get_u64(w)};
	r.files = wire_get_u64(w);
	r.shared = wire_get_u64(w);
	if (w->bad)
		return -1;
	*out = r;
	return 0;
}
