// SPDX-License-Identifier: Apache-2.0
/* A tool for the tests of src/appliance/nvtx: it checks the tables that it is given, and writes a line for each call to NVTX_DOUBLE_LOG.
 *
 * NVTX_DOUBLE_MODE: `all` takes the functions of both modules, `core` those of CORE alone, `refuse` those of both, and then fails.
 * NVTX_DOUBLE_CALL names a file with the address of a function, which is called before the tool writes its own functions.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* nvtxEventAttributes_v2. */
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

/* What a domain or a string is here: its name. */
struct name {
    char text[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_range;

static void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&lock);
    FILE *out = fopen(getenv("NVTX_DOUBLE_LOG"), "a");
    if (!out)
        abort();
    vfprintf(out, format, values);
    fclose(out);
    pthread_mutex_unlock(&lock);
    va_end(values);
}

/* Letters beyond ASCII become their numbers. */
static struct name *narrow(const wchar_t *wide) {
    struct name *name = calloc(1, sizeof *name);
    size_t used = 0;
    for (; *wide; wide++)
        used += snprintf(name->text + used, sizeof name->text - used, *wide < 128 ? "%c" : "<%x>", (unsigned)*wide);
    return name;
}

static const char *text(const void *name) {
    return name ? ((const struct name *)name)->text : "none";
}

static void *create_domain(const char *name) {
    struct name *domain = calloc(1, sizeof *domain);
    strncpy(domain->text, name, sizeof domain->text - 1);
    say("domain %s\n", name);
    return domain;
}

static void *register_string(void *domain, const wchar_t *wide) {
    struct name *name = narrow(wide);
    say("string %s %s\n", text(domain), name->text);
    return name;
}

static void name_category(void *domain, uint32_t id, const wchar_t *wide) {
    say("category %s %u %s\n", text(domain), id, narrow(wide)->text);
}

static void name_thread(uint32_t id, const wchar_t *wide) {
    say("thread %u %s\n", id, narrow(wide)->text);
}

static void event(const char *what, void *domain, const struct attributes *event) {
    if (event->version != 3 || event->size != sizeof *event || event->message_type != 3)
        abort();
    if (event->color_type || event->color || event->reserved)
        abort();
    say("%s %s %s category %u payload %d:%llu\n", what, text(domain), text(event->message), event->category, event->payload_type,
        (unsigned long long)event->payload);
}

static int push(void *domain, const struct attributes *attributes) {
    event("push", domain, attributes);
    return 0;
}

static int pop(void *domain) {
    say("pop %s\n", text(domain));
    return 0;
}

static uint64_t start(void *domain, const struct attributes *attributes) {
    event("start", domain, attributes);
    return ++last_range + 100;
}

static void end(void *domain, uint64_t range) {
    say("end %s %llu\n", text(domain), (unsigned long long)range);
}

typedef void (*function)(void);

/* NvtxExportTableCallbacks. */
struct callbacks {
    size_t size;
    int (*table)(uint32_t module, function ***places, unsigned *count);
};

/* NvtxExportTableVersionInfo. */
struct version {
    size_t size;
    uint32_t version, reserved;
    void (*set_tool)(uint32_t);
};

/* A table has an entry for each number but 0, which leads to an empty slot of its own, and a null after the last one. */
static void check_table(const struct callbacks *callbacks, uint32_t module) {
    function **places = NULL;
    unsigned count = 0;
    if (!callbacks->table(module, &places, &count)) {
        say("no module %u\n", module);
        return;
    }
    if (places[0] || places[count])
        abort();
    for (unsigned id = 1; id < count; id++)
        if (!places[id] || *places[id] || (id > 1 && places[id] == places[id - 1]))
            abort();
    if (!callbacks->table(module, NULL, NULL))
        abort();
    say("module %u: %u\n", module, count);
}

static void put(const struct callbacks *callbacks, uint32_t module, unsigned id, function what) {
    function **places;
    unsigned count;
    if (!callbacks->table(module, &places, &count) || id >= count)
        abort();
    *places[id] = what;
}

static void call_back(void) {
    const char *path = getenv("NVTX_DOUBLE_CALL");
    FILE *in = path ? fopen(path, "r") : NULL;
    if (!in)
        return;
    unsigned long long address = 0;
    if (fscanf(in, "%llu", &address) != 1)
        abort();
    fclose(in);
    say("inside\n");
    ((function)(uintptr_t)address)();
    say("outside\n");
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const struct callbacks *callbacks = export_table(1);
    const struct version *version = export_table(3);
    if (callbacks->size != sizeof *callbacks || version->size != sizeof *version || export_table(0) || export_table(2) || export_table(4))
        abort();
    version->set_tool(3);
    say("tool of version %u\n", version->version);
    for (uint32_t module = 0; module < 8; module++)
        check_table(callbacks, module);
    call_back();
    const char *mode = getenv("NVTX_DOUBLE_MODE");
    put(callbacks, 1, 15, (function)name_thread);
    if (strcmp(mode, "core") != 0) {
        put(callbacks, 5, 2, (function)start);
        put(callbacks, 5, 3, (function)end);
        put(callbacks, 5, 4, (function)push);
        put(callbacks, 5, 5, (function)pop);
        put(callbacks, 5, 9, (function)name_category);
        put(callbacks, 5, 11, (function)register_string);
        put(callbacks, 5, 12, (function)create_domain);
    }
    return strcmp(mode, "refuse") != 0;
}
