// SPDX-License-Identifier: Apache-2.0
// Between JSON and the engine's structs: decode.c reads requests, encode.c writes answers.
#pragma once
#include "base/json.h"
#include "base/jsonw.h"
#include "engine/net.h"

int decode_create(const json_t *o, struct create *out, struct err *e) MUST_USE; // create_done(out) also on failure
int decode_exec(const json_t *o, struct exec_request *out, struct err *e) MUST_USE; // likewise exec_request_done
int decode_job(const json_t *o, struct exec_request *out, struct err *e) MUST_USE;

int decode_net(const json_t *o, struct net_request *out, struct err *e) MUST_USE; // net_request_done also on failure
int decode_secret(const json_t *o, struct secret_request *out, struct err *e) MUST_USE; // likewise; wipes the value in o
// May this be reached, with that network?
struct question {
	char *host, *method, *path, *cwd; // HOST[:PORT]
	struct net_request net;
};
int decode_question(const json_t *o, struct question *out, struct err *e) MUST_USE;
void question_done(struct question *q);

void encode_sandbox(struct jsonw *w, struct engine *g, const struct sandbox *s);
// The members without braces, so that a create's answer can add its exec.
void encode_sandbox_members(struct jsonw *w, struct engine *g, const struct sandbox *s);
void encode_exec(struct jsonw *w, const struct exec_row *x);
void encode_attach(struct jsonw *w, const char *socket, const struct outcome *o); // null where there is no ticket
void encode_snapshot(struct jsonw *w, const struct snapshot *n);
void encode_image(struct jsonw *w, const struct image_row *i);

void encode_notices(struct jsonw *w, char *const *notices); // a member; nothing when there are none
// encode_net.c
int encode_policy(struct jsonw *w, struct engine *g, const struct sandbox *s, struct err *e) MUST_USE;
int encode_verdict(struct jsonw *w, struct engine *g, const char *sandbox, const struct question *q, struct err *e) MUST_USE;
void encode_secret(struct jsonw *w, const struct secret_row *r);
void encode_ask(struct jsonw *w, const struct ask_row *a);
void encode_trust(struct jsonw *w, const struct trust_view *v);
int verdict_parse(const char *s); // -1 when it is none
int check_net(struct engine *g, const struct net_request *n, struct err *e) MUST_USE; // a sandbox on no project may have it
