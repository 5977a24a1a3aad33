// SPDX-License-Identifier: Apache-2.0
// The native API: one table, and a handler per row that decodes, asks the engine and encodes.
//
// The files of this room, by what they serve:
//
//   server request request_in route          an exchange: in, to its handler, out
//   front listener rate tunnel               TCP: the door, addresses, how often, a cell's socket from elsewhere
//   auth rights access once refused          who may, what was asked twice, what was refused
//   decode encode encode_net answer status page openapi openapi_table   forms
//   sandboxes execs layers images journals net ports review             handlers of this table
//   volumes volume_files                     volumes, and the files in them for this table and E2B's
//   exec_* files_* events event_line follow  streams of commands, files and journals
//   preview_* mcp_* e2b_*                    surfaces of their own; preview.h, mcp.h, e2b.h and e2b_envd.h begin them
#include "api/access.h"
#include "api/answer.h"
#include "api/events.h"
#include "api/exec_io.h"
#include "api/execs.h"
#include "api/files.h"
#include "api/images.h"
#include "api/journals.h"
#include "api/layers.h"
#include "api/net.h"
#include "api/openapi.h"
#include "api/ports.h"
#include "api/review.h"
#include "api/sandboxes.h"
#include "api/volumes.h"

#include "engine/engine.h"
#include "model/msg.h"
#include <unistd.h>

#define SKEP_VERSION "0.1.0"

static void get_version(struct request *r)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '{');
	jw_kstr(&w, "version", SKEP_VERSION);
	jw_ku64(&w, "protocol", PROTO_VERSION);
	jw_ku64(&w, "pid", (uint64_t)getpid());
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void done_gc(void *ctx, const struct err *e, const struct gc_item *items, size_t n)
{
	struct request *r = ctx;
	if (e) {
		request_fail(r, e);
		return;
	}
	struct listing l = listing_begin(r, "items");
	for (size_t i = 0; i < n; i++) {
		jw_open(&l.w, '{');
		jw_kstr(&l.w, "what", items[i].what);
		jw_kstr(&l.w, "why", items[i].why);
		if (items[i].bytes)
			jw_ku64(&l.w, "bytes", items[i].bytes);
		jw_kbool(&l.w, "done", items[i].done);
		jw_close(&l.w, '}');
	}
	listing_end(&l);
}

static void post_gc(struct request *r)
{
	static const char *const known[] = {"dry_run", NULL};
	struct err e;
	bool dry = false;
	if (json_only(r->json, known, &e) || json_get_bool(r->json, "dry_run", &dry, &e))
		request_fail(r, &e);
	else
		engine_gc(r->engine, dry, (struct gc_done){done_gc, r});
}

static void post_shutdown(struct request *r)
{
	if (!answer_no_body(r))
		return;
	server_shutdown(r->server);
	request_answer(r, 204);
}

static const struct route routes[] = {
	{"GET", "/v1/version", BODY_NONE, get_version, SEEN(SCOPE_READ)},
	{"GET", "/v1/openapi.json", BODY_NONE, get_openapi, SEEN(SCOPE_READ)},
	{"GET", "/v1/events", BODY_NONE, get_events, SEEN(SCOPE_READ)},
	{"GET", "/v1/tokens", BODY_NONE, get_tokens, SCOPE_ADMIN},
	{"POST", "/v1/tokens", BODY_JSON, post_token, SCOPE_ADMIN},
	{"DELETE", "/v1/tokens/{}", BODY_NONE, delete_token, SCOPE_ADMIN},
	{"GET", "/v1/listeners", BODY_NONE, get_listeners, SCOPE_ADMIN},
	{"POST", "/v1/listeners", BODY_JSON, post_listener, SCOPE_LOCAL},
	{"GET", "/v1/listeners/{}/hold", BODY_NONE, get_listener_hold, SCOPE_LOCAL},
	{"DELETE", "/v1/listeners/{}", BODY_NONE, delete_listener, SCOPE_LOCAL},
	{"POST", "/v1/sandboxes", BODY_JSON, post_sandbox, SEEN(SCOPE_RUN)},
	{"GET", "/v1/sandboxes", BODY_NONE, get_sandboxes, SEEN(SCOPE_READ)},
	{"GET", "/v1/sandboxes/{}", BODY_NONE, get_sandbox, SCOPE_READ},
	{"DELETE", "/v1/sandboxes/{}", BODY_NONE, delete_sandbox, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/start", BODY_JSON, post_start, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/stop", BODY_JSON, post_stop, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/pause", BODY_JSON, post_pause, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/resume", BODY_JSON, post_resume, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/pin", BODY_JSON, post_pin, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/unpin", BODY_JSON, post_unpin, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/execs", BODY_JSON, post_exec, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/execs", BODY_NONE, get_execs, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/jobs", BODY_JSON, post_job, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/token", BODY_NONE, get_sandbox_token, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/events", BODY_NONE, get_sandbox_events, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/dial", BODY_JSON, post_dial, SCOPE_LOCAL},
	{"POST", "/v1/sandboxes/{}/preview", BODY_JSON, post_preview, SCOPE_RUN},
	{"DELETE", "/v1/sandboxes/{}/preview", BODY_NONE, delete_preview, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/exec", BODY_JSON, post_exec_wait, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/exec/stream", BODY_JSON, post_exec_stream, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/exec/ws", BODY_NONE, get_sandbox_exec_ws, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/cell", BODY_NONE, get_cell_tunnel, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/connect", BODY_NONE, get_port_tunnel, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files", BODY_NONE, get_file, SCOPE_READ},
	{"HEAD", "/v1/sandboxes/{}/files", BODY_NONE, get_file, SCOPE_READ},
	{"PUT", "/v1/sandboxes/{}/files", BODY_STREAM, put_file, SCOPE_RUN},
	{"DELETE", "/v1/sandboxes/{}/files", BODY_NONE, delete_file, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files/tar", BODY_NONE, get_file_tar, SCOPE_READ},
	{"PUT", "/v1/sandboxes/{}/files/tar", BODY_STREAM, put_file_tar, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files/list", BODY_NONE, get_file_list, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/files/stat", BODY_NONE, get_file_stat, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/files/watch", BODY_NONE, get_file_watch, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/files/mkdir", BODY_JSON, post_file_mkdir, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/move", BODY_JSON, post_file_move, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/copy", BODY_JSON, post_file_copy, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/remove", BODY_JSON, post_file_remove, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/search", BODY_JSON, post_file_search, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/files/edit", BODY_JSON, post_file_edit, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/journal", BODY_NONE, get_journal, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/journal/verify", BODY_NONE, get_verify, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/policy", BODY_NONE, get_policy, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/policy", BODY_JSON, post_policy, SCOPE_ADMIN},
	{"POST", "/v1/sandboxes/{}/policy/explain", BODY_JSON, post_explain, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/asks", BODY_NONE, get_asks, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/answers", BODY_JSON, post_answer, SCOPE_ADMIN},
	{"POST", "/v1/sandboxes/{}/snapshots", BODY_JSON, post_snapshot, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/rollback", BODY_JSON, post_rollback, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/fork", BODY_JSON, post_fork, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/diff", BODY_JSON, post_diff, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/apply", BODY_JSON, post_apply, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/dismiss", BODY_JSON, post_dismiss, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/undo", BODY_JSON, post_undo, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/export", BODY_JSON, post_export, SCOPE_REVIEW},
	{"GET", "/v1/snapshots", BODY_NONE, get_snapshots, SEEN(SCOPE_READ)},
	{"GET", "/v1/snapshots/{}", BODY_NONE, get_snapshot, SCOPE_READ},
	{"DELETE", "/v1/snapshots/{}", BODY_NONE, delete_snapshot, SCOPE_RUN},
	{"GET", "/v1/journal", BODY_NONE, get_service_journal, SCOPE_ADMIN},
	{"GET", "/v1/journal/verify", BODY_NONE, get_verify, SCOPE_ADMIN},
	{"GET", "/v1/policy", BODY_NONE, get_rules, SCOPE_READ},
	{"POST", "/v1/policy", BODY_JSON, post_rules, SCOPE_ADMIN},
	{"POST", "/v1/policy/check", BODY_JSON, post_check, SCOPE_READ},
	{"GET", "/v1/secrets", BODY_NONE, get_secrets, SCOPE_READ},
	{"POST", "/v1/secrets", BODY_JSON, post_secret, SCOPE_ADMIN},
	{"DELETE", "/v1/secrets/{}", BODY_NONE, delete_secret, SCOPE_ADMIN},
	{"GET", "/v1/trust", BODY_NONE, get_trust, SCOPE_LOCAL},
	{"POST", "/v1/trust", BODY_JSON, post_trust, SCOPE_LOCAL},
	{"DELETE", "/v1/trust", BODY_NONE, delete_trust, SCOPE_LOCAL},
	{"GET", "/v1/execs", BODY_NONE, get_execs, SEEN(SCOPE_READ)},
	{"GET", "/v1/execs/{}", BODY_NONE, get_exec, SCOPE_READ},
	{"POST", "/v1/execs/{}/attach", BODY_JSON, post_attach, SCOPE_RUN},
	{"GET", "/v1/execs/{}/stream", BODY_NONE, get_exec_stream, SCOPE_READ},
	{"GET", "/v1/execs/{}/ws", BODY_NONE, get_exec_ws, SCOPE_RUN},
	{"POST", "/v1/execs/{}/stdin", BODY_BYTES, post_exec_stdin, SCOPE_RUN},
	{"POST", "/v1/execs/{}/resize", BODY_JSON, post_exec_resize, SCOPE_RUN},
	{"POST", "/v1/execs/{}/kill", BODY_JSON, post_kill, SCOPE_RUN},
	{"GET", "/v1/execs/{}/output", BODY_NONE, get_output, SCOPE_READ},
	{"GET", "/v1/images", BODY_NONE, get_images, SEEN(SCOPE_READ)},
	{"POST", "/v1/images", BODY_JSON, post_image, SCOPE_ADMIN},
	{"POST", "/v1/images/pull", BODY_JSON, post_image_pull, SCOPE_RUN},
	{"GET", "/v1/images/{}", BODY_NONE, get_image, SEEN(SCOPE_READ)},
	{"DELETE", "/v1/images/{}", BODY_NONE, delete_image, SCOPE_ADMIN},
	{"GET", "/v1/volumes", BODY_NONE, get_volumes, SEEN(SCOPE_READ)},
	{"POST", "/v1/volumes", BODY_JSON, post_volume, SEEN(SCOPE_RUN)},
	{"GET", "/v1/volumes/{}", BODY_NONE, get_volume, SEEN(SCOPE_READ)},
	{"DELETE", "/v1/volumes/{}", BODY_NONE, delete_volume, SEEN(SCOPE_RUN)},
	{"GET", "/v1/volumes/{}/files", BODY_NONE, get_volume_file, SEEN(SCOPE_READ)},
	{"PUT", "/v1/volumes/{}/files", BODY_STREAM, put_volume_file, SEEN(SCOPE_RUN)},
	{"DELETE", "/v1/volumes/{}/files", BODY_NONE, delete_volume_file, SEEN(SCOPE_RUN)},
	{"GET", "/v1/volumes/{}/files/list", BODY_NONE, get_volume_list, SEEN(SCOPE_READ)},
	{"GET", "/v1/volumes/{}/files/stat", BODY_NONE, get_volume_stat, SEEN(SCOPE_READ)},
	{"POST", "/v1/volumes/{}/files/mkdir", BODY_JSON, post_volume_mkdir, SEEN(SCOPE_RUN)},
	{"POST", "/v1/volumes/{}/files/set", BODY_JSON, post_volume_set, SEEN(SCOPE_RUN)},
	{"POST", "/v1/gc", BODY_JSON, post_gc, SCOPE_ADMIN},
	{"POST", "/v1/shutdown", BODY_JSON, post_shutdown, SCOPE_LOCAL},
	{0},
};

const struct surface native_api = {.name = "native", .routes = routes};
