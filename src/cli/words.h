// SPDX-License-Identifier: Apache-2.0
// Words that people know from other tools of the kind, and what they are called here.
#pragma once

const char *words_verb(const char *word);   // "ps" for "list"; NULL = none
const char *words_option(const char *word); // with its dashes; what to use instead, or NULL
