// SPDX-License-Identifier: Apache-2.0
// What some servers obey instead of the request line. A rule that names methods or paths judges that line, so nothing else in the
// request may say another one: no field, no key of the query, no field of a form. Frameworks invent such names freely, so
// they are refused by their words and not by a list.
//
// method: a field whose name has "method", "verb" or "override" in it; a key of a query or a form such as _method, $verb,
//	   X-HTTP-Method-Override
// path:   a field with a word that begins or ends with url, uri or path (X-Original-URL, X-HTTP-DestinationURL), or that is
//	   copy, destination, location, prefix, script, or has rewrite or redirect in it
#pragma once
#include "gate/fields.h"

// The name of what is refused, as far as it counts; NULL = nothing. Borrowed from h, or constant.
const char *head_override(const struct head *h, struct looked_at counts);

// A request's body while it passes: forms only, which are what frameworks take methods from.
struct form_scan {
	enum { FORM_NONE, FORM_PAIRS, FORM_PARTS } kind;
	char text[512]; // a key, or a line of a part's head
	size_t n;
	bool skip;	// the rest of a value
	bool folded;	// a line ended, and may go on
};
void form_scan_begin(struct form_scan *f, const struct head *h, struct looked_at counts);
bool form_scan_add(struct form_scan *f, const char *p, size_t n); // true: it says a method. A key without a value does not
