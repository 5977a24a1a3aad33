// SPDX-License-Identifier: Apache-2.0
#include "base/seal.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY crypto_secretbox_KEYBYTES
#define NONCE crypto_secretbox_NONCEBYTES
#define MAC crypto_secretbox_MACBYTES

struct seal {
	unsigned char key[KEY];
};

void seal_wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_done(b);
}

static int read_key(int fd, const char *name, unsigned char *key, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(e, "%s", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return err_set(e, ERR_DENIED, "%s must be a file of ours that nobody else may read (chmod 600)", name);
	if (st.st_size != KEY || pread(fd, key, KEY, 0) != KEY)
		return err_set(e, ERR_DENIED, "%s is not a key: it must have %u bytes", name, KEY);
	return 0;
}

// Under its name only when it is whole: a crash in between leaves none, and then nothing was sealed with it either.
static int make_key(int dirfd, const char *name, struct err *e)
{
	unsigned char key[KEY];
	auto_free char *temp = xasprintf("%s.new", name);
	if (unlinkat(dirfd, temp, 0) && errno != ENOENT)
		return err_sys(e, "%s", temp);
	auto_fd int fd = fs_open(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	randombytes_buf(key, sizeof key);
	int rc = fs_write_all(fd, key, sizeof key, e);
	sodium_memzero(key, sizeof key);
	if (!rc && (fsync(fd) || (linkat(dirfd, temp, dirfd, name, 0) && errno != EEXIST) || fsync(dirfd)))
		rc = err_sys(e, "make %s", name);
	unlinkat(dirfd, temp, 0);
	return rc;
}

struct seal *seal_open(int dirfd, const char *name, struct err *e)
{
	if (sodium_init() < 0) {
		err_set(e, ERR_UNAVAILABLE, "libsodium does not start");
		return NULL;
	}
	auto_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		if (make_key(dirfd, name, e))
			return NULL;
		fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0) {
		err_sys(e, "open %s", name);
		return NULL;
	}
	struct seal *s = sodium_malloc(sizeof *s); // guarded, locked, left out of core dumps
	if (!s) {
		err_set(e, ERR_SYSTEM, "no memory for a key");
		return NULL;
	}
	if (read_key(fd, name, s->key, e)) {
		sodium_free(s);
		return NULL;
	}
	sodium_mprotect_readonly(s);
	return s;
}

void seal_close(struct seal *s)
{
	if (s)
		sodium_free(s);
}

void seal_lock(const struct seal *s, const char *name, const void *p, size_t n, struct buf *out)
{
	size_t k = strlen(name) + 1;
	auto_secret struct buf plain = BUF_INIT(k + n);
	char *room = buf_room(out, NONCE + MAC + k + n);
	if (!room || !buf_room(&plain, k + n)) { // one piece from the start: growing leaves copies behind
		out->overflow = true;
		return;
	}
	buf_add(&plain, name, k);
	buf_add(&plain, p, n);
	randombytes_buf(room, NONCE);
	crypto_secretbox_easy((unsigned char *)room + NONCE, (unsigned char *)plain.p, plain.n, (unsigned char *)room, s->key);
	out->n += NONCE + MAC + k + n;
}

void seal_mac(const struct seal *s, const char *text, unsigned char out[32])
{
	static const char domain[] = "skep mac";
	unsigned char key[crypto_generichash_KEYBYTES]; // not the one that encrypts
	crypto_generichash(key, sizeof key, (const unsigned char *)domain, sizeof domain, s->key, sizeof s->key);
	crypto_generichash(out, 32, (const unsigned char *)text, strlen(text), key, sizeof key);
	sodium_memzero(key, sizeof key);
}

int seal_unlock(const struct seal *s, const char *name, const void *p, size_t n, struct buf *out, struct err *e)
{
	const unsigned char *box = p;
	size_t k = strlen(name) + 1;
	if (n < NONCE + MAC + k)
		return err_set(e, ERR_DENIED, "what was sealed as %s is damaged: set it again", name);
	size_t len = n - NONCE - MAC;
	auto_secret struct buf plain = BUF_INIT(len + 1);
	char *room = buf_room(&plain, len);
	if (!room || crypto_secretbox_open_easy((unsigned char *)room, box + NONCE, n - NONCE, box, s->key) ||
	    memcmp(room, name, k))
		return err_set(e, ERR_DENIED, "what was sealed as %s does not open with this key: set it again", name);
	buf_add(out, room + k, len - k);
	return out->overflow ? err_set(e, ERR_LIMIT, "%s is too long", name) : 0;
}
