// SPDX-License-Identifier: Apache-2.0
// What sandboxes took from their projects' files.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>

void project_row_done(struct project_row *p)
{
	free(p->file);
	strv_free(p->hide);
	strv_free(p->setup);
	strv_free(p->setup_files);
	strv_free(p->env);
	free(p->setup_key);
	free(p->setup_of);
	free(p->test);
	*p = (struct project_row){0};
}

static void put_list(struct buf *b, char *const *v)
{
	char *none[] = {NULL};
	wire_strv(b, v ? v : none);
}

static char **get_list(struct wire *w)
{
	char **v = wire_get_strv(w);
	if (v && *v)
		return v;
	strv_free(v);
	return NULL;
}

void project_row_write(struct buf *b, const struct project_row *p)
{
	wire_u8(b, p->off);
	wire_str(b, p->file);
	put_list(b, p->hide);
	put_list(b, p->setup);
	put_list(b, p->setup_files);
	put_list(b, p->env);
	wire_str(b, p->setup_key);
	wire_str(b, p->setup_of);
	wire_str(b, p->test);
	wire_u32(b, (uint32_t)p->n_ports);
	for (size_t i = 0; i < p->n_ports; i++)
		wire_u32(b, p->ports[i]);
}

void project_row_read(struct wire *w, struct project_row *out)
{
	struct project_row p = {.off = wire_get_u8(w)};
	p.file = wire_get_str(w);
	p.hide = get_list(w);
	p.setup = get_list(w);
	p.setup_files = get_list(w);
	p.env = get_list(w);
	p.setup_key = wire_get_str(w);
	p.setup_of = wire_get_str(w);
	p.test = wire_get_str(w);
	uint32_t n = wire_get_u32(w);
	w->bad |= n > PROJECT_PORTS_KEPT;
	while (!w->bad && p.n_ports < n)
		p.ports[p.n_ports++] = (uint16_t)wire_get_u32(w);
	*out = p;
}

int store_project_set(struct store *s, const char *sandbox, const struct project_row *p, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	if (!p->file && !p->off)
		return 0;
	project_row_write(&body, p);
	struct cursor c = store_query(s, Q_PROJECT_SET);
	put_text(&c, sandbox);
	put_blob(&c, &body);
	return store_run(s, c, e);
}

int store_projects(struct store *s, void (*each)(void *ctx, const char *sandbox, struct project_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_PROJECTS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		char id[ID_SIZE];
		struct project_row p;
		get_fixed(&c, id, sizeof id);
		struct wire w = get_blob(&c);
		project_row_read(&w, &p);
		each(ctx, id, &p);
		project_row_done(&p);
	}
	return store_rows_end(s, st, rc, e);
}
