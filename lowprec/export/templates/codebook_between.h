    if (magnitude == 0)
        negative = 0;
