// SPDX-License-Identifier: Apache-2.0
/* A tool for NVTX that counts: how often ranges of each name were pushed and popped, or started and ended across threads,
 * and which threads have names.
 *
 * NVTX_INJECTION64_PATH names it to the program that is checked; NVTX's loader opens it and calls the one function that it
 * exports. When the program ends, it writes lines to the file in NVTX_COUNTS: `push NAME COUNT ITEMS`, `start NAME COUNT ENDED`,
 * `pop COUNT`, `unbalanced COUNT`, `thread NAME`. Numbers of tables and places are those of the NVTX 3 interface.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { MAX_NAMES = 64, MAX_LETTERS = 64 };

/* What an event carries, as NVTX lays it out. */
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

struct name {
    char text[MAX_LETTERS];
    uint64_t pushed, items, started, ended;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct name names[MAX_NAMES];
static char threads[MAX_NAMES][MAX_LETTERS];
static int name_count, thread_count;
static uint64_t popped, unbalanced;
static __thread int depth;

static struct name *find(const char *text) {
    for (int i = 0; i < name_count; i++)
        if (strncmp(names[i].text, text, MAX_LETTERS - 1) == 0)
            return &names[i];
    if (name_count == MAX_NAMES)
        abort();
    strncpy(names[name_count].text, text, MAX_LETTERS - 1);
    return &names[name_count++];
}

/* A domain and a registered text are pointers of our choice: the domain is not read, a text is its name. */
static void *create_domain(const char *text) {
    return (void *)text;
}

static void *register_text(void *domain, const char *text) {
    (void)domain;
    pthread_mutex_lock(&lock);
    struct name *found = find(text);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Wide letters, of which names of ranges and threads have plain ones only. */
static void narrow(char *text, const wchar_t *wide) {
    int i = 0;
    for (; wide[i] != 0 && i < MAX_LETTERS - 1; i++)
        text[i] = wide[i] < 128 ? (char)wide[i] : '?';
    text[i] = 0;
}

static void *register_wide(void *domain, const wchar_t *wide) {
    char text[MAX_LETTERS];
    narrow(text, wide);
    return register_text(domain, text);
}

/* 1: a text; 3: a registered one. */
static struct name *name_of(const struct attributes *event) {
    return event->message_type == 3 ? (struct name *)event->message : find(event->message_type == 1 ? event->message : "?");
}

/* A range across threads is known by its name: only how many ended is counted. */
static uint64_t start(void *domain, const struct attributes *event) {
    (void)domain;
    pthread_mutex_lock(&lock);
    struct name *found = name_of(event);
    found->started++;
    pthread_mutex_unlock(&lock);
    return (uint64_t)(found - names) + 1;
}

static void end(void *domain, uint64_t range) {
    (void)domain;
    pthread_mutex_lock(&lock);
    if (range == 0 || range > (uint64_t)name_count)
        unbalanced++;
    else
        names[range - 1].ended++;
    pthread_mutex_unlock(&lock);
}

static int push(void *domain, const struct attributes *event) {
    (void)domain;
    pthread_mutex_lock(&lock);
    struct name *found = name_of(event);
    found->pushed++;
    found->items += event->payload;
    pthread_mutex_unlock(&lock);
    return depth++;
}

static int pop(void *domain) {
    (void)domain;
    pthread_mutex_lock(&lock);
    popped++;
    if (depth == 0)
        unbalanced++;
    pthread_mutex_unlock(&lock);
    return --depth;
}

static void name_thread(uint32_t id, const char *text) {
    (void)id;
    pthread_mutex_lock(&lock);
    if (thread_count < MAX_NAMES)
        strncpy(threads[thread_count++], text, MAX_LETTERS - 1);
    pthread_mutex_unlock(&lock);
}

static void name_thread_wide(uint32_t id, const wchar_t *wide) {
    char text[MAX_LETTERS];
    narrow(text, wide);
    name_thread(id, text);
}

static void write_counts(void) {
    const char *path = getenv("NVTX_COUNTS");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < name_count; i++)
        fprintf(out, "start %s %llu %llu\n", names[i].text, (unsigned long long)names[i].started, (unsigned long long)names[i].ended);
    for (int i = 0; i < name_count; i++)
        fprintf(out, "push %s %llu %llu\n", names[i].text, (unsigned long long)names[i].pushed, (unsigned long long)names[i].items);
    fprintf(out, "pop %llu\nunbalanced %llu\n", (unsigned long long)popped, (unsigned long long)unbalanced);
    for (int i = 0; i < thread_count; i++)
        fprintf(out, "thread %s\n", threads[i]);
    pthread_mutex_unlock(&lock);
    fclose(out);
}

typedef void (*function)(void);

/* The first of NVTX's tables gives the others. */
struct callbacks {
    size_t size;
    int (*table)(int module, function ***places, unsigned *count);
};

static void put(const struct callbacks *callbacks, int module, unsigned place, function what) {
    function **places;
    unsigned count;
    if (callbacks->table(module, &places, &count) && place < count)
        *places[place] = what;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const struct callbacks *callbacks = export_table(1);
    if (!callbacks)
        return 0;
    put(callbacks, 1, 14, (function)name_thread);
    put(callbacks, 1, 15, (function)name_thread_wide);
    put(callbacks, 5, 2, (function)start);
    put(callbacks, 5, 3, (function)end);
    put(callbacks, 5, 4, (function)push);
    put(callbacks, 5, 5, (function)pop);
    put(callbacks, 5, 10, (function)register_text);
    put(callbacks, 5, 11, (function)register_wide);
    put(callbacks, 5, 12, (function)create_domain);
    atexit(write_counts);
    return 1;
}
