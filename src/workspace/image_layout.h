// SPDX-License-Identifier: Apache-2.0
// Images made of layers: an OCI layout, or what `docker save` writes, as a directory.
#pragma once
#include "workspace/image_tree.h"

enum layout {
	LAYOUT_NONE,
	LAYOUT_OCI,
	LAYOUT_DOCKER,
};

enum layout image_layout_of(int dir);
// Applies the layers of the one image for this machine. Every OCI digest is checked.
int image_layout_apply(struct image_tree *t, int dir, enum layout kind, struct err *e) MUST_USE;
