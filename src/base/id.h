// SPDX-License-Identifier: Apache-2.0
// Ids: a kind letter and 15 random characters of [a-z0-9]; and random keys.
#pragma once
#include <stdbool.h>

#define ID_SIZE 20  // with the NUL; ids are [a-z][a-z0-9]{11,19} on input
#define KEY_SIZE 33 // 128 bits in hex, with the NUL

void id_make(char kind, char out[ID_SIZE]); // aborts if the kernel has no randomness
bool id_is(const char *s);
void key_make(char out[KEY_SIZE]);
bool key_equal(const char *a, const char *b); // constant time in the contents
// What a user may call a sandbox, an image, a snapshot: 1 to 40 of a-z 0-9 -, not starting with -, and not like an id.
bool name_is_valid(const char *name);
