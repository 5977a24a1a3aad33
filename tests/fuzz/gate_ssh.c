// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as what an ssh server says first, as the text of a private key, as a login that is to be signed, and
// as a key with a signature.
#include "base/mem.h"
#include "gate/ssh_key.h"
#include "gate/ssh_seen.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// However it is cut, it says the same.
static void server(const uint8_t *data, size_t size)
{
	struct ssh_seen *whole = ssh_seen_new(), *cut = ssh_seen_new();
	bool more = ssh_seen_feed(whole, data, size), more_cut = true;
	for (size_t i = 0; i < size && more_cut; i += 7)
		more_cut = ssh_seen_feed(cut, data + i, size - i < 7 ? size - i : 7);
	struct ssh_text a = ssh_seen_key(whole), b = ssh_seen_key(cut);
	if (size <= (128u << 10) && (more != more_cut || a.n != b.n || (a.n && memcmp(a.p, b.p, a.n))))
		abort();
	if (ssh_seen_is(whole, (struct ssh_text){data, size < 32 ? size : 32}) && !a.n)
		abort();
	ssh_seen_free(whole);
	ssh_seen_free(cut);
}

static void text_of_key(const void *p, size_t n)
{
	struct ssh_key k = {0};
	auto_buf struct buf out = BUF_INIT(SSH_KEY_MAX);
	struct err e;
	if (!ssh_key_read(p, n, &out, &e) && out.n && !ssh_key_load(p, n, &k, &e) && !k.blob.n)
		abort();
	ssh_key_done(&k);
}

// As it is, and as what stands inside OpenSSH's wrapping.
static void key(const uint8_t *data, size_t size)
{
	static const char magic[] = "openssh-key-v1";
	auto_buf struct buf raw = BUF_INIT(SSH_KEY_MAX), text = BUF_INIT(2 * SSH_KEY_MAX);
	text_of_key(data, size);
	buf_add(&raw, magic, sizeof magic);
	buf_add(&raw, data, size);
	buf_str(&text, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	char *room = buf_room(&text, raw.n / 3 * 4 + 8);
	text.n += (size_t)EVP_EncodeBlock((unsigned char *)room, (const unsigned char *)raw.p, (int)raw.n);
	buf_str(&text, "\n-----END OPENSSH PRIVATE KEY-----\n");
	text_of_key(text.p, text.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ssh_login l;
	server(data, size);
	key(data, size);
	if (ssh_login_parse((struct ssh_text){data, size}, &l) && l.session.n + l.user.n + l.alg.n + l.key.n >= size)
		abort();
	struct ssh_in in = {data, size, false};
	struct ssh_text blob = ssh_get(&in), signature = ssh_get(&in);
	ssh_verifies(blob, signature, (struct ssh_text){in.p, in.n});
	return 0;
}
