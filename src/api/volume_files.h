// SPDX-License-Identifier: Apache-2.0
// Files in volumes, for every surface: each of these answers the request, in the form of its surface when it fails.
#pragma once
#include "api/server.h"
#include "engine/volume.h"

// What of a query names a file and says how it shall be. False: answered.
bool volume_op_query(struct request *r, const char *volume, enum volume_verb verb, struct volume_op *out);
// Likewise of a body's member. Numbers: depth, uid, gid, mode.
bool volume_op_path(struct request *r, const char *path, struct volume_op *out);

// Takes *op. The JSON of the answer as it comes; member: under this key of an object, NULL = bare. 204: without a body.
void volume_answer_json(struct request *r, struct volume_op *op, int status, const char *member);
void volume_answer_file(struct request *r, struct volume_op *op); // its bytes
void volume_answer_put(struct request *r, struct volume_op *op);  // of a BODY_STREAM
// Whose volumes the caller's are (engine/volume.h); "" for a token of a single sandbox would be all, so it is a name nobody has.
const char *volume_viewer(const struct request *r);
