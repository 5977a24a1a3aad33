// SPDX-License-Identifier: Apache-2.0
// What skepd's tools share. Nothing here weakens a policy, mounts, approves, applies or runs on the host.
#pragma once
#include "api/mcp.h"
#include "engine/engine.h"

#define MCP_OUTPUT_DEFAULT (32u << 10) // bytes of one stream in one answer
#define MCP_OUTPUT_MAX (256u << 10)
#define MCP_YIELD_DEFAULT 10000
#define MCP_YIELD_MAX 300000

// The sandbox that is meant, if this caller may: borrowed until the loop goes on. NULL: the call was answered, and its
// arguments are gone.
const struct sandbox *mcp_box(struct mcp_call *c, const json_t *args, enum scope scope);
// The exec that "exec" names; exec_row_done. -1: the call was answered.
int mcp_exec(struct mcp_call *c, const char *id, enum scope scope, struct exec_row *out) MUST_USE;
// The same two without an answer.
const struct sandbox *mcp_box_find(struct mcp_call *c, const char *word, enum scope scope, struct err *e);
int mcp_exec_find(struct mcp_call *c, const char *id, enum scope scope, struct exec_row *out, struct err *e) MUST_USE;
void mcp_refuse_kind(struct mcp_call *c, const struct err *e); // with the next step that fits its kind

// Some bytes of a stream: its beginning and its end; what is between is counted.
struct excerpt {
	struct buf head, tail;
	uint64_t first, next; // absolute offsets: of the first byte, behind the last
	uint64_t tail_at;     // of tail's first byte
	bool begun;
};
void excerpt_init(struct excerpt *x, size_t max, uint64_t from);
void excerpt_done(struct excerpt *x);
void excerpt_add(struct excerpt *x, uint64_t offset, const void *p, size_t n);
uint64_t excerpt_omitted(const struct excerpt *x);
void excerpt_put(struct jsonw *w, const char *key, const struct excerpt *x);

void mcp_run(struct mcp_call *c, const json_t *args);
void mcp_run_poll(struct mcp_call *c, const json_t *args);
void mcp_run_kill(struct mcp_call *c, const json_t *args);
void mcp_read(struct mcp_call *c, const json_t *args);
void mcp_write(struct mcp_call *c, const json_t *args);
void mcp_edit(struct mcp_call *c, const json_t *args);
void mcp_list(struct mcp_call *c, const json_t *args);
void mcp_search(struct mcp_call *c, const json_t *args);
void mcp_sandbox_create(struct mcp_call *c, const json_t *args);
void mcp_sandbox_list(struct mcp_call *c, const json_t *args);
void mcp_sandbox_stop(struct mcp_call *c, const json_t *args);
void mcp_status(struct mcp_call *c, const json_t *args);
void mcp_snapshot(struct mcp_call *c, const json_t *args);
void mcp_rollback(struct mcp_call *c, const json_t *args);
void mcp_fork(struct mcp_call *c, const json_t *args);
void mcp_diff(struct mcp_call *c, const json_t *args);
void mcp_preview(struct mcp_call *c, const json_t *args);
void mcp_policy(struct mcp_call *c, const json_t *args);

void mcp_resources_list(struct mcp_call *c);
void mcp_templates_list(struct mcp_call *c);
void mcp_resources_read(struct mcp_call *c);
