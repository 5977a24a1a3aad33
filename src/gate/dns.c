// SPDX-License-Identifier: Apache-2.0
// DNS messages and the table of synthetic addresses: pure. dns_serve.c has the sockets.
#include "gate/dns.h"

#include "base/clock.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { HEADER = 12, LABEL = 63, NAME = 255, CLASS_IN = 1 };
#define FLAG_ANSWER 0x8000u
#define FLAG_RECURSE 0x0100u
#define FLAG_RECURSION 0x0080u
#define NO_ENTRY UINT16_MAX
#define BUCKETS 4096u

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(struct buf *b, unsigned v)
{
	buf_byte(b, (char)(v >> 8));
	buf_byte(b, (char)v);
}

// Copies the labels at p into text with dots. Bytes of the name, 0 when it is malformed. A dot inside a label becomes a
// NUL: host_parse refuses it, and no two different names can look alike.
static size_t read_name(const uint8_t *p, size_t n, struct buf *text)
{
	size_t at = 0;
	for (;;) {
		if (at >= n || at >= NAME || p[at] > LABEL)
			return 0;
		size_t len = p[at++];
		if (!len)
			return at;
		if (len > n - at)
			return 0;
		if (text->n)
			buf_byte(text, '.');
		for (size_t i = 0; i < len; i++)
			buf_byte(text, (char)(p[at + i] == '.' ? 0 : p[at + i]));
		at += len;
	}
}

// One OPT record with the empty name, and nothing behind it.
static enum dns_rcode read_edns(const uint8_t *p, size_t n, struct dns_query *q)
{
	if (n < 11 || p[0] || get16(p + 1) != DNS_OPT || (size_t)get16(p + 9) != n - 11)
		return DNS_FORMERR;
	q->edns = true;
	return p[6] ? DNS_BADVERS : DNS_NOERROR;
}

static enum dns_rcode read_question(const uint8_t *p, size_t n, struct dns_query *q)
{
	struct err e;
	auto_buf struct buf text = BUF_INIT(NAME + 1);
	size_t len = read_name(p + HEADER, n - HEADER, &text);
	if (!len || n - HEADER - len < 4)
		return DNS_FORMERR;
	const uint8_t *end = p + HEADER + len;
	q->question = p + HEADER;
	q->question_n = len + 4;
	q->type = get16(end);
	q->is_name = !host_parse(buf_cstr(&text), text.n, &q->name, &e);
	size_t rest = n - HEADER - q->question_n;
	if (get16(p + 10) == 1) {
		enum dns_rcode r = read_edns(end + 4, rest, q);
		if (r)
			return r;
	} else if (get16(p + 10) || rest) {
		return DNS_FORMERR;
	}
	return get16(end + 2) == CLASS_IN ? DNS_NOERROR : DNS_REFUSED;
}

bool dns_parse(const uint8_t *p, size_t n, struct dns_query *out)
{
	if (n < HEADER || get16(p + 2) & FLAG_ANSWER)
		return false;
	unsigned flags = get16(p + 2);
	*out = (struct dns_query){.id = get16(p), .recurse = flags & FLAG_RECURSE};
	if (flags >> 11 & 15)
		out->rcode = DNS_NOTIMP;
	else if (n > DNS_MESSAGE || get16(p + 4) != 1 || get16(p + 6) || get16(p + 8))
		out->rcode = DNS_FORMERR;
	else
		out->rcode = read_question(p, n, out);
	return true;
}

void dns_answer(struct buf *out, const struct dns_query *q, enum dns_rcode rcode, uint32_t address)
{
	put16(out, q->id);
	put16(out, FLAG_ANSWER | FLAG_RECURSION | (q->recurse ? FLAG_RECURSE : 0) | (rcode & 15));
	put16(out, q->question ? 1 : 0);
	put16(out, address ? 1 : 0);
	put16(out, 0);
	put16(out, q->edns ? 1 : 0);
	buf_add(out, q->question, q->question_n);
	if (address) {
		put16(out, 0xc000 | HEADER); // the question's name
		put16(out, DNS_A);
		put16(out, CLASS_IN);
		put16(out, 0);
		put16(out, DNS_TTL);
		put16(out, 4);
		put16(out, address >> 16);
		put16(out, address & 0xffff);
	}
	if (q->edns) {
		buf_byte(out, 0);
		put16(out, DNS_OPT);
		put16(out, DNS_MESSAGE);
		put16(out, (unsigned)rcode >> 4 << 8); // upper bits of the code, version 0
		put16(out, 0);
		put16(out, 0);
	}
}

struct entry {
	struct host_name name;
	uint32_t address, held;
	uint64_t used_ms;
	uint16_t next_name, next_address; // in their buckets
};

struct dns_names {
	struct entry *e;
	size_t n, cap;
	uint16_t by_name[BUCKETS], by_address[BUCKETS];
};

struct dns_names *dns_names_new(void)
{
	struct dns_names *t = xcalloc(1, sizeof *t);
	memset(t->by_name, 0xff, sizeof t->by_name);
	memset(t->by_address, 0xff, sizeof t->by_address);
	return t;
}

void dns_names_free(struct dns_names *t)
{
	if (t)
		free(t->e);
	free(t);
}

static uint32_t hash_name(const struct host_name *name)
{
	uint32_t h = 2166136261u; // FNV-1a: a cell that makes names collide slows down itself only
	for (const char *p = name->s; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619u;
	return h ^ h >> 15;
}

static struct entry *find_address(const struct dns_names *t, uint32_t address)
{
	for (uint16_t i = t->by_address[address % BUCKETS]; i != NO_ENTRY; i = t->e[i].next_address)
		if (t->e[i].address == address)
			return &t->e[i];
	return NULL;
}

static struct entry *find_name(const struct dns_names *t, const struct host_name *name, uint32_t hash)
{
	for (uint16_t i = t->by_name[hash % BUCKETS]; i != NO_ENTRY; i = t->e[i].next_name)
		if (host_equal(&t->e[i].name, name))
			return &t->e[i];
	return NULL;
}

static void forget(struct dns_names *t, uint16_t at)
{
	struct entry *e = &t->e[at];
	uint16_t *p = &t->by_name[hash_name(&e->name) % BUCKETS];
	while (*p != at)
		p = &t->e[*p].next_name;
	*p = e->next_name;
	p = &t->by_address[e->address % BUCKETS];
	while (*p != at)
		p = &t->e[*p].next_address;
	*p = e->next_address;
}

// An entry that is nobody's: a new one, or the longest unused.
static struct entry *take_entry(struct dns_names *t)
{
	if (t->n < DNS_NAMES) {
		if (t->n == t->cap) {
			t->cap = t->cap ? t->cap * 2 : 16;
			t->e = xrealloc(t->e, t->cap * sizeof *t->e);
		}
		return &t->e[t->n++];
	}
	struct entry *oldest = NULL;
	for (size_t i = 0; i < t->n; i++)
		if (!t->e[i].held && (!oldest || t->e[i].used_ms < oldest->used_ms))
			oldest = &t->e[i];
	if (oldest)
		forget(t, (uint16_t)(oldest - t->e));
	return oldest;
}

// .0 and .255 are passed over: some tools take them for networks.
static bool usable(const struct dns_names *t, uint32_t address)
{
	return (address & 0xff) != 0 && (address & 0xff) != 0xff && !find_address(t, address);
}

uint32_t dns_names_give(struct dns_names *t, const struct host_name *name)
{
	uint32_t hash = hash_name(name), mask = (1u << DNS_NET_BITS) - 1;
	struct entry *e = find_name(t, name, hash);
	if (!e) {
		e = take_entry(t);
		if (!e)
			return 0;
		uint32_t at = hash & mask;
		while (!usable(t, DNS_NET | at))
			at = (at + 1) & mask;
		uint16_t *by_name = &t->by_name[hash % BUCKETS], *by_address = &t->by_address[(DNS_NET | at) % BUCKETS];
		*e = (struct entry){
			.name = *name, .address = DNS_NET | at, .next_name = *by_name, .next_address = *by_address};
		*by_name = *by_address = (uint16_t)(e - t->e);
	}
	e->used_ms = clock_ms();
	return e->address;
}

const struct host_name *dns_names_find(struct dns_names *t, uint32_t address)
{
	struct entry *e = find_address(t, address);
	if (!e)
		return NULL;
	e->used_ms = clock_ms();
	return &e->name;
}

void dns_names_hold(struct dns_names *t, uint32_t address)
{
	struct entry *e = find_address(t, address);
	if (e)
		e->held++;
}

void dns_names_release(struct dns_names *t, uint32_t address)
{
	struct entry *e = find_address(t, address);
	if (e && e->held)
		e->held--;
}
