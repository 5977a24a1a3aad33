// SPDX-License-Identifier: Apache-2.0
// Memory and cleanup. Out of memory aborts: sizes from outside are bounded before they get here,
// and every process of ours may die at any instruction.
#pragma once
#include <stdbool.h>
#include <stddef.h>

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void mem_free_ptr(void *pp); // frees *(void **)pp
void mem_close_fd(int *fd);

#define auto_free __attribute__((cleanup(mem_free_ptr)))
#define auto_fd __attribute__((cleanup(mem_close_fd)))

// Move ownership out of an auto variable: return take(&p);
#define take(pp)                          \
	({                                \
		__typeof__(*(pp)) v_ = *(pp); \
		*(pp) = NULL;             \
		v_;                       \
	})
// For what is read only, by many forks: in place of p, which is freed, the same bytes where a fork copies no page table.
// Never to be freed or written. p itself, if that could not be had.
void *mem_share(void *p, size_t n);
void mem_trim_stack(void); // gives back what calls before this one have used
// For a program whose forks count by the thousand: of a large buffer that is hardly used only what is used shall be there.
void mem_small_pages(void);

int take_fd(int *fd);
void close_fd(int *fd); // closes if open, sets -1

// A NULL-terminated list of owned strings.
char **strv_copy(char *const *v);
void strv_add(char ***v, const char *s);
void strv_free(char **v);
size_t strv_len(char *const *v);
bool strv_equal(char *const *a, char *const *b); // NULL is as good as empty

#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define countof(a) (sizeof(a) / sizeof(*(a)))

// Takes obj out of the list that begins at *head and is linked by `next`; nothing happens when it is not in it.
#define list_unlink(head, obj, next)              \
	do {                                      \
		__typeof__(obj) *at_ = (head);    \
		while (*at_ && *at_ != (obj))     \
			at_ = &(*at_)->next;      \
		if (*at_)                         \
			*at_ = (obj)->next;       \
	} while (0)
