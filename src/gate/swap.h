// SPDX-License-Identifier: Apache-2.0
// Placeholders become secrets here, and only here: in the place a secret is bound to, towards the host and port it is
// bound to, over TLS whose certificate was verified. A known placeholder anywhere else in the head refuses the
// request.
//
//   header:X   every placeholder in the values of X; X is added with the value when the request has none of the host's
//   bearer     Authorization: Bearer PLACEHOLDER; added in the same way
//   basic git  Authorization: Basic, in the decoded text: user:PLACEHOLDER, PLACEHOLDER:, or PLACEHOLDER alone
//              where the value is user:password
//   query:K    the value of K in the query, percent-encoded
//   file       Authorization with any scheme
//   set:X      X is the value, whatever the client sent: no placeholder is looked for
//
// To a host with a bound secret (set ones do not count) no other credential leaves (gate/credential.h): Authorization and its
// like that carry no placeholder are dropped, in the head, the query and a trailer, so that nobody uses the host as somebody else
// through us.
//
// Bodies: the first SWAP_BODY bytes to a host with no secret of its own are searched for placeholders (a secret sent
// to a stranger). Hosts that have one are not: what an agent sends to its model may well quote its own environment,
// and a placeholder tells nobody anything.
#pragma once
#include "gate/fields.h"
#include "model/policy.h"

#define SWAP_BODY (64u << 10)

struct swap {
	const struct policy *policy;
	const struct secret_value *values;
	size_t n_values;
	const struct host_name *host;
	uint16_t port;
	bool verified; // TLS, and the certificate was checked for host
};

// A secret that was put in: for the event and for revocation. Borrowed from the policy and the values.
struct swap_used {
	const struct secret_ref *ref;
	const struct secret_value *value;
};

bool swap_is_bound(const struct swap *s);   // some secret may go into requests to this host and port
bool swap_knows_host(const struct swap *s); // some secret is bound to this host on any port: its answers are masked
// Works on the head in place. Number of secrets put in (at most POLICY_SECRETS, into used), or -1: a placeholder
// stands where it may not; *out_name is that secret's name (borrowed), nothing of the head may go out.
int swap_request(const struct swap *s, struct head *h, struct swap_used *used, const char **out_name);
// Of a request, behind its body: nothing is put in, the client's own credentials are left out. The name (borrowed) of a secret
// whose placeholder stands there; then nothing of it may go out. NULL = none.
const char *swap_trailer(const struct swap *s, struct head *trailer);

// "header:X-Api-Key", "bearer", ...: the word of --as, for events.
void swap_place(const struct secret_ref *ref, struct buf *out);

// Looks for placeholders in a stream. Zero it, then feed; a name (borrowed) as soon as one is found.
struct swap_search {
	uint64_t seen;
	char tail[192]; // the end of what was seen: a placeholder may be cut
	size_t n_tail;
};
const char *swap_search_add(const struct swap *s, struct swap_search *q, const char *p, size_t n);
