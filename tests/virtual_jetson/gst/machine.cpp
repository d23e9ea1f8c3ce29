// SPDX-License-Identifier: Apache-2.0
// See machine.h.
#include "machine.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace {

std::string path_of(const char *name) {
    const char *folder = getenv("JETWATCH_VIRTUAL_JETSON");
    return folder && *folder ? std::string(folder) + "/" + name : std::string();
}

std::string text_of(const Place &place) {
    char text[256];
    snprintf(text, sizeof text, "{\"memory\":\"%s\",\"format\":\"%s\",\"width\":%d,\"height\":%d,\"layout\":\"%s\"}",
             place.is_nvmm ? "NVMM" : "system", gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&place.info)),
             GST_VIDEO_INFO_WIDTH(&place.info), GST_VIDEO_INFO_HEIGHT(&place.info), place.is_block ? "block" : "pitch");
    return text;
}

std::string head_of(const char *element, const char *name, const char *engine) {
    return std::string("{\"process\":") + std::to_string(getpid()) + ",\"element\":\"" + element + "\",\"name\":\"" + name +
           "\",\"engine\":\"" + engine + "\",\"from\":";
}

} // namespace

bool has_folder() { return !path_of("").empty(); }

bool has_file(const char *name) {
    std::string path = path_of(name);
    return !path.empty() && access(path.c_str(), F_OK) == 0;
}

std::string file_line(const char *name, const char *otherwise) {
    std::string line, path = path_of(name);
    std::ifstream file(path);
    if (path.empty() || !std::getline(file, line)) return otherwise;
    return line;
}

void Counter::set(const char *element, const char *name, const char *engine, const Place &from, const Place &to) {
    flush();
    // Copies from and to NVMM go through the CPU's caches.
    const char *copy = from.is_nvmm != to.is_nvmm ? ",\"cpu_copy\":true" : ",\"cpu_copy\":false";
    head_ = head_of(element, name, engine) + text_of(from) + ",\"to\":" + text_of(to) + copy;
    written_ = 0;
}

void Counter::set_encoded(const char *element, const char *name, const char *engine, const char *from, const Place &to) {
    flush();
    head_ = head_of(element, name, engine) + "{\"memory\":\"system\",\"format\":\"" + from + "\"},\"to\":" + text_of(to) +
            (to.is_nvmm ? ",\"cpu_copy\":false" : ",\"cpu_copy\":true");
    written_ = 0;
}

void Counter::set_to_encoded(const char *element, const char *name, const char *engine, const Place &from, const char *to) {
    flush();
    head_ = head_of(element, name, engine) + text_of(from) + ",\"to\":{\"memory\":\"system\",\"format\":\"" + to + "\"}" +
            (from.is_nvmm ? ",\"cpu_copy\":false" : ",\"cpu_copy\":true");
    written_ = 0;
}

void Counter::set_camera(const char *element, const char *name, const char *format, int width, int height) {
    flush();
    head_ = head_of(element, name, "USB") + "{\"memory\":\"USB\",\"format\":\"" + format + "\"},\"to\":{\"memory\":\"system\",\"format\":\"" + format +
            "\",\"width\":" + std::to_string(width) + ",\"height\":" + std::to_string(height) + ",\"layout\":\"pitch\"},\"cpu_copy\":false";
    written_ = 0;
}

void Counter::frame() {
    pending_++;
    // The first is reported at once, so that a waiting test sees the element start.
    if (written_ == 0 || pending_ >= 15) flush();
}

void Counter::flush() {
    std::string path = path_of("counts.jsonl");
    if (pending_ && !path.empty() && !head_.empty()) {
        std::string line = head_ + ",\"frames\":" + std::to_string(pending_) + "}\n";
        int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        // One call writes one line whole, also with other processes at it.
        if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
            fprintf(stderr, "double: %s cannot be written\n", path.c_str());
        if (file >= 0) close(file);
        written_ += pending_;
    }
    pending_ = 0;
}
