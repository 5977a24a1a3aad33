// SPDX-License-Identifier: Apache-2.0
// Echo masking: the answers of a host that knows a secret are searched for it, and the placeholder is put in its
// place. Searched for: the value itself; its base64 at any of the three alignments (so user:value as well), both
// alphabets; its percent-encoded, hexadecimal and, as common writers escape, JSON and HTML forms. A host that transforms a value in another way,
// or sends it in parts, is not stopped: docs say so. At the edges of a base64 form up to six bits of the neighbouring
// bytes stay.
//
// A stream is held back only while its last bytes could be the beginning of a form, and a few such bytes only for a
// moment: whoever speaks in turns (gRPC, WebSocket) may wait for exactly them.
#pragma once
#include "base/buf.h"
#include "model/policy.h"

struct mask_set; // the forms of all values of a sandbox; shared, counted

// NULL when there is nothing to look for.
struct mask_set *mask_set_new(const struct secret_value *v, size_t n);
struct mask_set *mask_set_get(struct mask_set *s); // one more user
void mask_set_put(struct mask_set *s);		   // wiped with the last; NULL is fine

struct mask {
	struct mask_set *set; // NULL: bytes pass as they are
	struct buf held;      // the beginning of what may be a form
	size_t told;	      // of it, given out already (mask_late)
	bool same_length;     // put as many '*' as there were bytes: for what has a framing of its own inside
	uint64_t found;
};

void mask_init(struct mask *m, struct mask_set *set, bool same_length); // takes one use of set; set may be NULL
void mask_done(struct mask *m);						// drops what is held, safe on zeroes
// Appends to out what is known to be clean. end: nothing follows, so nothing is held. A stream that breaks off is not
// ended: what is held is the beginning of a secret and goes with mask_done.
void mask_add(struct mask *m, const void *p, size_t n, bool end, struct buf *out);
bool mask_holds(const struct mask *m); // bytes wait that mask_late could give out
// Nothing has come for a moment: appends what is held, if it is too short to tell of a value. It is still remembered: what
// follows is searched as if it had not gone out.
void mask_late(struct mask *m, struct buf *out);
// A whole text at once. True when something was replaced: *out then has it; else out is untouched.
bool mask_text(struct mask_set *set, const char *p, size_t n, struct buf *out);
