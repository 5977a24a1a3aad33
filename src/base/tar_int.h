// SPDX-License-Identifier: Apache-2.0
// What a tar archive is made of, for its writer and its reader.
#pragma once
#include <stdint.h>

#define TAR_BLOCK 512u
#define TAR_OCTAL_MAX 077777777777ull // of eleven digits

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2], uname[32], gname[32], major[8],
		minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a block");
