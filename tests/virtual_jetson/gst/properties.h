// SPDX-License-Identifier: Apache-2.0
// Properties of elements from tables: declared, remembered and given back. The element implements them.
#pragma once
#include <gst/gst.h>
#include <string>
#include <vector>

struct Property {
    enum Kind { Bool, Int, UInt, Float, Text, Choice };
    const char *name;
    Kind kind;
    double low, high, normal;
    const char *text;
    // Of a choice: the name of its type, and its values, ended by one without a name.
    const char *type;
    const GEnumValue *values;
};

inline Property flag(const char *name, bool normal) { return {name, Property::Bool, 0, 1, normal ? 1.0 : 0.0, nullptr, nullptr, nullptr}; }
inline Property number(const char *name, double low, double high, double normal) {
    return {name, Property::Int, low, high, normal, nullptr, nullptr, nullptr};
}
inline Property count(const char *name, double low, double high, double normal) {
    return {name, Property::UInt, low, high, normal, nullptr, nullptr, nullptr};
}
inline Property real(const char *name, double low, double high, double normal) {
    return {name, Property::Float, low, high, normal, nullptr, nullptr, nullptr};
}
inline Property words(const char *name, const char *normal) { return {name, Property::Text, 0, 0, 0, normal, nullptr, nullptr}; }
inline Property choice(const char *name, const char *type, const GEnumValue *values, int normal) {
    return {name, Property::Choice, 0, 0, static_cast<double>(normal), nullptr, type, values};
}

// Declares `table` for a class, but for one that is named; property `i` has the number `i + 1`.
void install_properties(GObjectClass *object_class, const std::vector<Property> &table, const std::string &without = "");

// The values of one element's properties.
class Values {
  public:
    explicit Values(GObjectClass *object_class, size_t count);
    ~Values();
    void set(guint id, const GValue *value);
    void give(guint id, GValue *value);
    // By place in the table.
    int as_int(size_t index);
    guint as_count(size_t index) { return static_cast<guint>(as_int(index)); }
    bool as_bool(size_t index) { return as_int(index) != 0; }

  private:
    GMutex mutex_;
    std::vector<GValue> values_;
};
