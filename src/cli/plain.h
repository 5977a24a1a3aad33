// SPDX-License-Identifier: Apache-2.0
// What a sandbox wrote, read on the user's terminal: text, line ends, tabs and colours. Everything else that a terminal
// would obey (titles, the clipboard, questions it answers by typing) or that hides text is shown as what it is.
#pragma once
#include "base/buf.h"

#define PLAIN_HELD 32

struct plain {
	char held[PLAIN_HELD]; // the start of a sequence whose rest has not come yet
	size_t n;
	bool coloured;
};

// Zero it, then feed; out needs five bytes for each.
void plain_add(struct plain *p, const void *bytes, size_t n, struct buf *out);
void plain_end(struct plain *p, struct buf *out); // what is still held; colours end
