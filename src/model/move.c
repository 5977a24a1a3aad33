// SPDX-License-Identifier: Apache-2.0
#include "model/move.h"

void rights_write(struct buf *b, const struct rights *r)
{
	wire_u32(b, r->uid);
	wire_u32(b, r->gid);
	wire_u64(b, r->caps);
	wire_u32(b, r->n_groups);
	for (uint32_t i = 0; i < r->n_groups; i++)
		wire_u32(b, r->groups[i]);
}

int rights_read(struct wire *w, struct rights *out)
{
	*out = (struct rights){.uid = wire_get_u32(w), .gid = wire_get_u32(w)};
	out->caps = wire_get_u64(w);
	out->n_groups = wire_get_u32(w);
	if (out->n_groups > RIGHTS_GROUPS)
		return -1;
	for (uint32_t i = 0; i < out->n_groups; i++)
		out->groups[i] = wire_get_u32(w);
	return w->bad ? -1 : 0;
}
