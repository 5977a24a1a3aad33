// SPDX-License-Identifier: Apache-2.0
// Work on whole layers (model/layer.h), on directory descriptors alone. Runs where files of subordinate uids can be read: in
// a child of the nursery, inside the base user namespace.
//
// Crash-only: what is made is NAME.partial, locked while somebody works on it, until the last rename.
#pragma once
#include "model/layer.h"

#define LAYER_PARTIAL ".partial"

// layers: the directory that holds them. `to` that exists already is looked at instead of made.
int layer_do(int layers, const struct layer_op *op, struct layer_result *out, struct err *e) MUST_USE;
