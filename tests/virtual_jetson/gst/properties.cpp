// SPDX-License-Identifier: Apache-2.0
// See properties.h.
#include "properties.h"

namespace {

GType choice_type(const Property &property) {
    GType type = g_type_from_name(property.type);
    return type ? type : g_enum_register_static(property.type, property.values);
}

GParamSpec *declare(const Property &property) {
    const char *name = property.name, *text = property.text ? property.text : "Of the element that this is a double of";
    auto flags = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS);
    switch (property.kind) {
    case Property::Bool: return g_param_spec_boolean(name, name, text, property.normal != 0, flags);
    case Property::Int:
        return g_param_spec_int(name, name, text, static_cast<int>(property.low), static_cast<int>(property.high),
                                static_cast<int>(property.normal), flags);
    case Property::UInt:
        return g_param_spec_uint(name, name, text, static_cast<guint>(property.low), static_cast<guint>(property.high),
                                 static_cast<guint>(property.normal), flags);
    case Property::Float:
        return g_param_spec_float(name, name, text, static_cast<float>(property.low), static_cast<float>(property.high),
                                  static_cast<float>(property.normal), flags);
    case Property::Text: return g_param_spec_string(name, name, name, property.text, flags);
    case Property::Choice:
        return g_param_spec_enum(name, name, text, choice_type(property), static_cast<int>(property.normal), flags);
    }
    return nullptr;
}

} // namespace

void install_properties(GObjectClass *object_class, const std::vector<Property> &table, const std::string &without) {
    for (size_t i = 0; i < table.size(); i++)
        if (without != table[i].name) g_object_class_install_property(object_class, static_cast<guint>(i + 1), declare(table[i]));
}

Values::Values(GObjectClass *object_class, size_t count) : values_(count, GValue G_VALUE_INIT) {
    g_mutex_init(&mutex_);
    guint found = 0;
    GParamSpec **specs = g_object_class_list_properties(object_class, &found);
    for (guint i = 0; i < found; i++) {
        guint id = specs[i]->param_id;
        // Properties of the classes above have numbers of their own.
        if (specs[i]->owner_type != G_OBJECT_CLASS_TYPE(object_class) || id == 0 || id > count) continue;
        g_value_init(&values_[id - 1], G_PARAM_SPEC_VALUE_TYPE(specs[i]));
        g_param_value_set_default(specs[i], &values_[id - 1]);
    }
    g_free(specs);
}

Values::~Values() {
    for (GValue &value : values_)
        if (G_IS_VALUE(&value)) g_value_unset(&value);
    g_mutex_clear(&mutex_);
}

void Values::set(guint id, const GValue *value) {
    g_mutex_lock(&mutex_);
    g_value_copy(value, &values_[id - 1]);
    g_mutex_unlock(&mutex_);
}

void Values::give(guint id, GValue *value) {
    g_mutex_lock(&mutex_);
    g_value_copy(&values_[id - 1], value);
    g_mutex_unlock(&mutex_);
}

int Values::as_int(size_t index) {
    g_mutex_lock(&mutex_);
    const GValue *value = &values_[index];
    int number = 0;
    if (G_VALUE_HOLDS_BOOLEAN(value)) number = g_value_get_boolean(value);
    else if (G_VALUE_HOLDS_INT(value)) number = g_value_get_int(value);
    else if (G_VALUE_HOLDS_UINT(value)) number = static_cast<int>(g_value_get_uint(value));
    else if (G_VALUE_HOLDS_ENUM(value)) number = g_value_get_enum(value);
    g_mutex_unlock(&mutex_);
    return number;
}
