// SPDX-License-Identifier: Apache-2.0
// Between the files of the envd surface.
#pragma once
#include "api/e2b.h"
#include "api/e2b_connect.h"
#include "engine/tap.h"

// One request under way, from the moment on which its sandbox runs and its caller was let in. Who answers it frees it.
struct envd_call {
	struct request *r;
	struct engine *g;
	struct loop *loop;
	char sandbox[ID_SIZE];
	char *user;	     // by name; the sandbox's own when the request says nothing
	bool user_is_default;
	json_t *msg;	     // of an RPC
	void (*fn)(struct envd_call *c);
};
void envd_call_free(struct envd_call *c);
const struct e2b_box *envd_box(const struct envd_call *c); // NULL: gone meanwhile
// Answers, in the form of the call (RPC or REST), and frees it.
void envd_answer(struct envd_call *c, int status); // with r->answer
void envd_error(struct envd_call *c, enum rpc_code code, const char *message);
void envd_fail(struct envd_call *c, const struct err *e);
void envd_lost(struct envd_call *c); // its sandbox does not run any more: 502

// One operation of init for the call's user (init/account.h): argv is OP USER …, what it needs beside that is in args.
// done gets the error in terms of RPC: an unknown user is RPC_UNAUTHENTICATED.
struct envd_job {
	const char *op;
	const char *args[8]; // NULL-terminated
	size_t max;
};
void envd_job(struct envd_call *c, const struct envd_job *j, struct job_done d);
enum rpc_code envd_code_of(const struct err *e); // of what a job failed with

// e2b_process.c
void process_start(struct envd_call *c);
void process_connect(struct envd_call *c);
void process_list(struct envd_call *c);
void process_send_input(struct envd_call *c);
void process_stream_input(struct envd_call *c);
void process_close_stdin(struct envd_call *c);
void process_send_signal(struct envd_call *c);
void process_update(struct envd_call *c);
void processes_forget(void);

// e2b_filesystem.c
void filesystem_stat(struct envd_call *c);
void filesystem_list_dir(struct envd_call *c);
void filesystem_make_dir(struct envd_call *c);
void filesystem_move(struct envd_call *c);
void filesystem_remove(struct envd_call *c);

// e2b_watch.c
void filesystem_watch_dir(struct envd_call *c);
void filesystem_create_watcher(struct envd_call *c);
void filesystem_get_watcher_events(struct envd_call *c);
void filesystem_remove_watcher(struct envd_call *c);
void watches_forget(void);

// e2b_files.c, e2b_files_put.c
void envd_refuse(struct envd_call *c, int status, const char *message); // REST only
void files_get(struct envd_call *c);
void files_post(struct envd_call *c);
void files_compose(struct envd_call *c);
