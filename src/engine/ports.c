// SPDX-License-Identifier: Apache-2.0
// Ports that are open in a sandbox, as its cell reports them. Events of them are in the journal already: the cell wrote them.
#include "engine/engine_int.h"

#include "base/mem.h"
#include "model/limits.h"
#include <stdlib.h>
#include <string.h>

static void drop_at(struct box *b, size_t i)
{
	free(b->ports[i].program);
	memmove(&b->ports[i], &b->ports[i + 1], (--b->n_ports - i) * sizeof *b->ports);
}

static void on_port(struct cell_watcher *w, bool is_open, const struct cell_port *p)
{
	struct box *b = container_of(w, struct box, w);
	size_t i = 0;
	while (i < b->n_ports && b->ports[i].port < p->port)
		i++;
	if (i < b->n_ports && b->ports[i].port == p->port)
		drop_at(b, i);
	if (!is_open || b->n_ports >= LIMIT_PORTS)
		return;
	b->ports = xrealloc(b->ports, (b->n_ports + 1) * sizeof *b->ports);
	memmove(&b->ports[i + 1], &b->ports[i], (b->n_ports++ - i) * sizeof *b->ports);
	b->ports[i] = (struct port_row){.port = p->port, .local = p->local, .pid = p->pid, .program = xstrdup(p->program)};
	if (id_is(p->exec))
		memcpy(b->ports[i].exec, p->exec, strlen(p->exec) + 1);
}

void ports_events_init(struct box *b)
{
	b->w.port = on_port;
}

void ports_forget(struct box *b)
{
	while (b->n_ports)
		drop_at(b, b->n_ports - 1);
	free(take(&b->ports));
}

void engine_ports(struct engine *g, const char *id, void (*each)(void *ctx, const struct port_row *p), void *ctx)
{
	const struct box *b = box_by_id(g, id);
	for (size_t i = 0; b && i < b->n_ports; i++)
		each(ctx, &b->ports[i]);
}
