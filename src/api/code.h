// SPDX-License-Identifier: Apache-2.0
// Between JSON and the engine's structs: decode.c reads requests, encode.c writes answers.
#pragma once
#include "base/json.h"
#include "base/jsonw.h"
#include "engine/engine.h"

int decode_create(const json_t *o, struct create *out, struct err *e) MUST_USE; // create_done(out) also on failure
int decode_exec(const json_t *o, struct exec_request *out, struct err *e) MUST_USE; // likewise exec_request_done
int decode_job(const json_t *o, struct exec_request *out, struct err *e) MUST_USE;

void encode_sandbox(struct jsonw *w, struct engine *g, const struct sandbox *s);
// The members without braces, so that a create's answer can add its exec.
void encode_sandbox_members(struct jsonw *w, struct engine *g, const struct sandbox *s);
void encode_exec(struct jsonw *w, const struct exec_row *x);
void encode_attach(struct jsonw *w, struct engine *g, const struct outcome *o);
void encode_image(struct jsonw *w, const struct image_row *i);
