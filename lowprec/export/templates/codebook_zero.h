    if (magnitude == 0)
        return ${name}_special(negative, 0, saturation);
