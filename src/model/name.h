// SPDX-License-Identifier: Apache-2.0
// The one parser of host names and ports. Rules, DNS questions, SNI, Host, :authority and secrets all pass through it,
// and what it gives is the only form that is compared, resolved, put in a certificate or written to the journal.
//
// A name is taken as bytes of a known length, so that a NUL in the middle is seen. The canonical form is lower case,
// A-labels as they were written (U-labels are refused: the writer must say xn--), without the trailing dot. Labels have
// 1 to 63 of [a-z0-9-], neither first nor last a '-'; '_' may be the first byte only. At most 253 bytes. Nothing that
// some resolver could take for an address is a name: that is any name whose last label is a number (decimal, octal,
// 0x hex: 127.1, 0x7f000001, 2130706433), and anything with a ':' or a '['.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_name {
	char s[254];
};

// INVALID with the reason; *out is written only on success. The message never holds bytes of the input.
int host_parse(const char *p, size_t n, struct host_name *out, struct err *e) MUST_USE;
// Decimal digits only, 1 to 65535: no sign, no space, no leading zero.
int port_parse(const char *p, size_t n, uint16_t *out, struct err *e) MUST_USE;
bool host_is_url(const char *p, size_t n); // what people paste: https://host/
// "host" or "host:port"; *port is 0 when none was given. "host:" is refused.
int host_port_parse(const char *s, size_t n, struct host_name *h, uint16_t *port, struct err *e) MUST_USE;

bool host_equal(const struct host_name *a, const struct host_name *b);
// True when h has at least one label in front of zone, on a label boundary: a.b.test is below b.test and test.
bool host_is_below(const struct host_name *h, const struct host_name *zone);
