// SPDX-License-Identifier: Apache-2.0
// The SFTP server's state, its answers, and the requests of sftp_names.c.
#pragma once
#include "init/sftp.h"
#include "init/sftp_wire.h"
#include <dirent.h>
#include <sys/stat.h>

#define SFTP_HANDLES 256

struct sftp_handle {
	bool used;
	int fd; // file
	bool append;
	DIR *dir;
};

struct sftp {
	struct buf in, out;
	struct sftp_handle handles[SFTP_HANDLES];
	bool greeted;
};

void sftp_answer(struct sftp *s, uint32_t id, enum sftp_status code, const char *text);
void sftp_answer_errno(struct sftp *s, uint32_t id);
void sftp_answer_rc(struct sftp *s, uint32_t id, int rc); // not 0: errno
void sftp_answer_name(struct sftp *s, uint32_t id, const char *name);
void sftp_answer_handle(struct sftp *s, uint32_t id, struct sftp_handle *h);
struct sftp_attrs sftp_attrs_of(const struct stat *st);
// NULL: answered already.
struct sftp_handle *sftp_handle_get(struct sftp *s, const struct sftp_request *q);
struct sftp_handle *sftp_handle_new(struct sftp *s, uint32_t id);

void sftp_opendir(struct sftp *s, const struct sftp_request *q);
void sftp_readdir(struct sftp *s, const struct sftp_request *q);
void sftp_mkdir(struct sftp *s, const struct sftp_request *q);
void sftp_remove(struct sftp *s, const struct sftp_request *q);
void sftp_rename(struct sftp *s, const struct sftp_request *q);
void sftp_link(struct sftp *s, const struct sftp_request *q);
void sftp_readlink(struct sftp *s, const struct sftp_request *q);
void sftp_realpath(struct sftp *s, const struct sftp_request *q);
