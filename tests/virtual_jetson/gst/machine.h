// SPDX-License-Identifier: Apache-2.0
// The folder that holds the machine's state: what tests set before and check afterwards.
//
// JETWATCH_VIRTUAL_JETSON names it. Without it the elements work, nothing is counted, and nothing can be broken.
#pragma once
#include <gst/video/video.h>
#include <string>

// Whether file `name` is in the folder; false without a folder.
bool has_file(const char *name);
// Its first line without the line's end, or `otherwise`.
std::string file_line(const char *name, const char *otherwise);
// Whether there is a folder.
bool has_folder();

// Where images lie, for the counts.
struct Place {
    GstVideoInfo info;
    bool is_nvmm;
    bool is_block;
};

// Appends lines to counts.jsonl: what one element did with how many frames since its last line.
class Counter {
  public:
    void set(const char *element, const char *name, const char *engine, const Place &from, const Place &to);
    void set_encoded(const char *element, const char *name, const char *engine, const char *from, const Place &to);
    void set_to_encoded(const char *element, const char *name, const char *engine, const Place &from, const char *to);
    // Of a camera at the machine's own memory.
    void set_camera(const char *element, const char *name, const char *format, int width, int height);
    void frame();
    void flush();

  private:
    std::string head_;
    unsigned pending_ = 0, written_ = 0;
};
