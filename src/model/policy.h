// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach: rules by name, and the secrets bound to names. Pure; also linked into skep-cell.
//
// Text of a rule:   [!][METHOD ][*.]host[:port][/path][=ADDR] [open|pass]
//             or:   [!]RANGE[:port]
//   !        deny. Without a port it counts for every port; an allowing rule without one counts for 80 and 443.
//   *.host   names below host at any depth, not host itself.
//   /path    exact, or a prefix when it ends in '*'. Compared after %-decoding, without the query. '=', '?', '#',
//            spaces and bytes that are not ASCII are written as %XX.
//   =ADDR    1.2.3.4 or [::1]: the name has this address, which may be private. Never with '!'.
//   open     TLS is opened. A method, a path or a secret bound to the host opens too.
//   pass     TLS is never opened (a pinned host). Never with a method, a path or '!'.
//   RANGE    an address or a range of them (model/range.h), IPv6 in brackets, for connections that were dialled by address. Port
//            '*' is every port. A range never counts for addresses that are not everybody's (private, metadata, …), unless all of
//            it is of that kind or it is that one address; 0.0.0.0/0 and ::/0 count only where no rule denies a name, for by its
//            address that could be got around. A range that denies also counts for what an allowed name resolves to.
//
// Order of judging, which does not depend on the order in the list (policy_json and `policy show` print in it):
//   1. Any deny rule that matches: DENY.            2. Else any allow rule that matches: ALLOW.
//   3. Else the preset open: ALLOW; else ask: ASK; else DENY. `why` is NULL then. An address that no range allows: DENY.
// Among several that match, `why` is the most specific: exact host before wildcard, longer wildcard before shorter,
// port before none, exact path before longer prefix before none, method before none; then the earlier one.
//
// A question without method (connection level): a deny rule with method or path does not match, an allow rule with
// them does, since each request is judged again. Where a pass rule keeps the connection closed to us nobody could
// judge the requests, so there a deny rule with method or path denies the whole and such an allow rule gives nothing.
// A path in a form that servers read differently (dot segments, '//', '\', ';', control bytes, doubly or badly
// encoded, not starting with '/') matches every deny rule with a path and no allow rule with one, except "/*".
#pragma once
#include "base/buf.h"
#include "model/name.h"
#include "model/range.h"

#define RULE_TEXT 2048 // bytes of a rule's text
#define POLICY_RULES 1024
#define POLICY_SECRETS 64
#define POLICY_WIRE (3u << 20) // bound of what policy_write gives: fits a frame

enum verdict { VERDICT_DENY, VERDICT_ALLOW, VERDICT_ASK, VERDICTS };
const char *verdict_name(enum verdict v); // "deny" "allow" "ask"

struct rule {
	bool deny, wildcard, open, pass, any_port;
	struct host_name host; // "" with a range
	struct range range;    // family 0 = by name
	uint16_t port; // 0: see above
	char *method;  // NULL = any
	char *path;    // NULL = any; decoded; a last '*' makes it a prefix
	char *address; // NULL, or the literal the name is pinned to, without brackets
	char *from; // who said so: "--allow", "preset registries (npm)", "project", "user", "site", "--expose-host", "answer"
};
int rule_parse(const char *s, const char *from, struct rule *out, struct err *e) MUST_USE;
void rule_print(struct buf *b, const struct rule *r); // what rule_parse reads back to the same rule
void rule_done(struct rule *r);

// Where the gate puts a secret's value.
enum secret_as { SECRET_HEADER, SECRET_BEARER, SECRET_BASIC, SECRET_QUERY, SECRET_GIT, SECRET_FILE, SECRET_SSH, SECRET_SET, SECRET_AS };
const char *secret_as_name(enum secret_as as);
// "header:X", "set:X", "query:K", "bearer", "basic", "git", "file", "ssh". *out_key is owned, NULL for those without one.
int secret_as_parse(const char *s, enum secret_as *out, char **out_key, struct err *e) MUST_USE;
bool secret_name_is(const char *s); // [A-Za-z_][A-Za-z0-9_]{0,63}: it names an environment variable

// A placeholder that begins so belongs to a value that is no secret to the host's answers (a header that a surface sets): it
// is not searched for there. No secret's own placeholder does, for no name begins with a digit.
#define PLACEHOLDER_PLAIN "skep_0_"

struct secret_ref {
	char *name;
	struct host_name host; // exactly this host
	bool wildcard;	       // or all names below it: only with SECRET_SET
	uint16_t port;	       // 0 = 443
	enum secret_as as;
	char *key;	   // header or query name; NULL for the others
	char *placeholder; // what the inside sees
};
void secret_ref_done(struct secret_ref *s);
bool secret_ref_is_plain(const struct secret_ref *s);

struct policy {
	struct rule *rules;
	size_t n;
	struct secret_ref *secrets;
	size_t n_secrets;
	bool open_all; // preset open
	bool ask;      // what no rule knows is asked
};
void policy_done(struct policy *p);
void policy_write(struct buf *b, const struct policy *p);
// Everything or nothing: on failure *out is empty, which allows nothing.
int policy_read(struct wire *w, struct policy *out, struct err *e) MUST_USE;
void policy_json(struct buf *b, const struct policy *p); // one object, rules in the order of judging

// Takes r (r is empty afterwards, also on failure). LIMIT past POLICY_RULES.
int policy_add(struct policy *p, struct rule *r, struct err *e) MUST_USE;
int policy_add_text(struct policy *p, const char *rule, const char *from, struct err *e) MUST_USE;
int policy_add_secret(struct policy *p, struct secret_ref *s, struct err *e) MUST_USE; // takes s

struct request {
	const struct host_name *host; // or an address, as host_of_range gives it
	uint16_t port;
	const char *method, *path; // NULL method: connection level. path: as in the request line, query allowed
};
enum verdict policy_judge(const struct policy *p, const struct request *r, const struct rule **why);
// TLS to this host is opened: an open rule, a rule with method or path, or a secret (not an ssh key) is bound to it, and
// no pass rule.
bool policy_opens(const struct policy *p, const struct host_name *h, uint16_t port);
// What rules for this host look at.
struct looked_at {
	bool method, path;
};
struct looked_at policy_looks_at(const struct policy *p, const struct host_name *h, uint16_t port);
// It may go to this host and port. Of what is set, the sets of several hosts are never joined: the exact name's count before those
// of a wildcard, a longer wildcard's before a shorter one's.
bool policy_binds(const struct policy *p, const struct secret_ref *s, const struct host_name *h, uint16_t port);
// An ssh key is bound to exactly this host and port.
bool policy_has_ssh(const struct policy *p, const struct host_name *h, uint16_t port);
#define FROM_REGISTRIES "preset registries" // how `from` begins in rules of that preset
#define EXPOSED_NAME "host.skep.internal" // what a port of the host is called that was given no name
// The rule for this host is where the user's own package managers are set up to fetch from: a mirror inside the
// company's network is meant as it is, so the name may have a private address (never loopback, link-local or metadata).
bool policy_is_mirror(const struct policy *p, const struct host_name *h, uint16_t port);
bool policy_has_ranges(const struct policy *p); // some address may be dialled as it is
bool policy_names(const struct policy *p, const struct host_name *h); // DNS may answer: some port is allowed or asked
const char *policy_address(const struct policy *p, const struct host_name *h,
			   uint16_t port); // borrowed; NULL = resolve

// none, or one or more of registries, git, llm, open, joined with ','. registries: "host[:port]\tsource" each
// (workspace/registries.h), may be NULL. Adds all or, on failure, nothing.
int preset_add(struct policy *p, const char *preset, char *const *registries, struct err *e) MUST_USE;

// Values, from skepd to the gate in sealed memory. Wiped by secrets_done.
struct secret_value {
	char *name, *placeholder;
	uint8_t *value;
	size_t n;
};
struct secrets {
	struct secret_value *v;
	size_t n;
	char *ca_key; // PEM, "" = none
};
void secrets_write(struct buf *b, const struct secret_value *v, size_t n, const char *ca_key);
int secrets_read(const void *p, size_t size, struct secrets *out, struct err *e) MUST_USE;
void secrets_done(struct secrets *s);
