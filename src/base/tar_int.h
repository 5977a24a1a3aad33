// SPDX-License-Identifier: Apache-2.0
// What a tar archive is made of, for its writer and its reader.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define TAR_BLOCK 512u
#define TAR_CHUNK (128u << 10)
#define TAR_OCTAL_MAX 077777777777ull // of eleven digits

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2], uname[32], gname[32], major[8],
		minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a block");

struct tar_entry {
	char *path, *target; // owned; of an extended header, then of the header
	uint64_t size;
	bool has_size, sparse;
	mode_t mode;
	struct timespec mtime;
	char type;
};
void tar_entry_done(struct tar_entry *en);

// tar_in.c: an archive that is read.
struct tar_in {
	int fd;
	uint8_t begun[2]; // looked at first
	size_t n_begun;
	char *chunk; // TAR_CHUNK bytes, for whoever reads
	struct err *e;
};
int tar_in_begin(struct tar_in *in) MUST_USE; // refuses what is no tar at the first look
// 1 = an entry, 0 = the end. Its bytes come next, tar_padding of them behind: both are to be read or skipped.
int tar_in_next(struct tar_in *in, struct tar_entry *en) MUST_USE;
int tar_in_all(struct tar_in *in, void *out, size_t n) MUST_USE;
int tar_in_skip(struct tar_in *in, uint64_t n) MUST_USE;
int tar_in_drain(struct tar_in *in) MUST_USE; // what lies behind the end is read, so that who sends it is not cut off
size_t tar_padding(uint64_t size);
