// SPDX-License-Identifier: Apache-2.0
// Inside registries.h: what the readers of files and answers find, told to the list.
#pragma once
#include "base/str.h"
#include "workspace/registries.h"

// The tool's one registry: counts when nothing before it said so. variable: NULL, or what says the same inside.
void registry_main(struct registries *r, enum registry_tool t, struct str url, const char *variable);
// One more place; words that are no URL with a host name are passed over.
void registry_more(struct registries *r, enum registry_tool t, struct str url);
// The same for an index of cargo.
void registry_index(struct registries *r, struct str url);
void registry_go_proxy(struct registries *r, struct str value, bool private);
void registry_go_sums(struct registries *r, struct str value, bool private);
void registry_host(struct registries *r, enum registry_tool t, struct str host_port);
// Every <url> of a POM or settings file outside comments.
void registry_xml(struct registries *r, const char *text, size_t n);
struct str str_trim(struct str s);
