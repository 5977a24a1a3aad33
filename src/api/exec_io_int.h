// SPDX-License-Identifier: Apache-2.0
// What the forms of a command's streams share.
#pragma once
#include "api/code.h"
#include "api/exec_io.h"
#include "engine/feed.h"

bool exec_offsets(struct request *r, uint64_t out[2]); // ?offset_stdout= and offset_stderr=; false: the request was failed
void event_start(struct buf *b, const char *exec);
void event_gap(struct buf *b, int stream, uint64_t from, uint64_t to);
void event_exit(struct buf *b, const struct exec_result *r); // JSON objects without a newline
void event_error(struct buf *b, const struct err *e);
void event_result(struct jsonw *w, const struct exec_result *r); // the members alone
const char *stream_name(int stream);
// u8 stream, u64 offset (little endian), bytes.
#define PIECE_HEAD 9
void piece_head(uint8_t out[PIECE_HEAD], int stream, uint64_t offset);
