// SPDX-License-Identifier: Apache-2.0
#include "model/entry.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void entry_done(struct entry *n)
{
	file_record_done(&n->file);
	free(n->path);
	free(n->target);
	strv_free(n->notes);
	*n = (struct entry){.path = NULL};
}

void entry_write(struct buf *b, const struct entry *n)
{
	file_record_write(b, &n->file);
	wire_str(b, n->path);
	wire_str(b, n->target);
	wire_u32(b, n->target_mode);
	wire_strv(b, n->notes);
}

int entry_read(struct wire *w, struct entry *out)
{
	struct entry n = {.path = NULL};
	if (file_record_read(w, &n.file))
		return -1;
	n.path = wire_get_str(w);
	n.target = wire_get_str(w);
	n.target_mode = wire_get_u32(w);
	n.notes = wire_get_strv(w);
	for (char **v = n.notes; v && *v; v++)
		w->bad |= !strchr(*v, '=');
	if (w->bad || !n.path || !n.file.name) {
		entry_done(&n);
		return -1;
	}
	*out = n;
	return 0;
}
