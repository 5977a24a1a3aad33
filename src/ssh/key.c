// SPDX-License-Identifier: Apache-2.0
#include "ssh/key.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MAX 16384

static int failed(struct err *e, const char *what)
{
	return err_set(e, ERR_SYSTEM, "%s of the SSH host key failed in libssh", what);
}

static ssh_key parse(int dir, struct err *e)
{
	struct stat st;
	auto_buf struct buf text = BUF_INIT(KEY_MAX);
	ssh_key k = NULL;
	auto_fd int fd = fs_open(dir, KEY_FILE, O_RDONLY | O_NOFOLLOW, 0, e);
	if (fd < 0 || fs_read_fd(fd, &text, e))
		return NULL;
	if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 077)) {
		err_set(e, ERR_DENIED, "the SSH host key can be read by others: remove it, and a new one is made");
		return NULL;
	}
	if (ssh_pki_import_privkey_base64(buf_cstr(&text), NULL, NULL, NULL, &k) != SSH_OK)
		err_set(e, ERR_INVALID, "the SSH host key is damaged: remove it, and a new one is made");
	explicit_bzero(text.p, text.n);
	return k;
}

static int generate(int dir, struct err *e)
{
	ssh_key k = NULL;
	char *text = NULL;
	if (ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &k) != SSH_OK)
		return failed(e, "making");
	int rc = ssh_pki_export_privkey_base64(k, NULL, NULL, NULL, &text) == SSH_OK ? 0 : failed(e, "writing");
	ssh_key_free(k);
	if (!rc) {
		rc = fs_replace(dir, KEY_FILE, text, strlen(text), 0600, e);
		explicit_bzero(text, strlen(text));
		ssh_string_free_char(text);
	}
	return rc;
}

static int write_known(int dir, ssh_key k, struct err *e)
{
	char *pub = NULL;
	auto_buf struct buf line = BUF_INIT(KEY_MAX), was = BUF_INIT(KEY_MAX);
	struct err ignored;
	if (ssh_pki_export_pubkey_base64(k, &pub) != SSH_OK)
		return failed(e, "reading");
	buf_fmt(&line, "%s %s %s\n", KEY_ALIAS, ssh_key_type_to_char(ssh_key_type(k)), pub);
	ssh_string_free_char(pub);
	if (!fs_read(dir, KEY_KNOWN, &was, &ignored) && !strcmp(buf_cstr(&was), buf_cstr(&line)))
		return 0;
	return fs_replace(dir, KEY_KNOWN, line.p, line.n, 0600, e);
}

static int open_dir(const char *path, struct err *e)
{
	return fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
}

int key_prepare(const char *path, struct err *e)
{
	if (fs_mkdirs(AT_FDCWD, path, 0700, e))
		return -1;
	auto_fd int dir = open_dir(path, e);
	if (dir < 0)
		return -1;
	if (flock(dir, LOCK_EX)) // two first uses at once make one key
		return err_sys(e, "lock %s", path);
	ssh_key k = parse(dir, e);
	if (!k && e->sys == ENOENT)
		k = generate(dir, e) ? NULL : parse(dir, e);
	int rc = k ? write_known(dir, k, e) : -1;
	ssh_key_free(k);
	return rc;
}

ssh_key key_load(const char *path, struct err *e)
{
	auto_fd int dir = open_dir(path, e);
	return dir < 0 ? NULL : parse(dir, e);
}
