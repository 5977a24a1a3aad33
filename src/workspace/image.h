// SPDX-License-Identifier: Apache-2.0
// Import of a root file system, for the program skep-image: blocking, one import per process.
//
// Everything in the source is hostile. What it may do is decided in image_tree.c; what is refused is
// refused by name, and then nothing of the image stays.
#pragma once
#include "base/err.h"
#include <stdint.h>

#define IMAGE_BYTES (64ULL << 30)	// of all files together, holes counted
#define IMAGE_ENTRIES 5000000ULL
#define IMAGE_MANIFEST (4u << 20)	// bytes of one JSON document
#define IMAGE_LAYERS 1000

struct image_result {
	uint64_t bytes, files; // what was made, also where a later layer replaced it
	uint64_t skipped;      // device nodes, FIFOs and sockets left out
};

// source: a directory (root file system, OCI layout, unpacked `docker save`) or a tar of one of them.
// Makes the directory `into`, which must not exist (CONFLICT), and removes it again on failure.
int image_import(const char *source, const char *into, struct image_result *out, struct err *e) MUST_USE;
